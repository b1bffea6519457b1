// The wire over UCX's tagged messages. This file is a shared object of its own, which is opened
// only by runs of several processes, after UCX's settings are in the environment. It uses nothing
// of the program.

#include <ucp/api/ucp.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "phalanx/comm/ucx/wire.h"

namespace phalanx::ucx {
namespace {

void expect(ucs_status_t status, const char* what) {
  if (status != UCS_OK)
    throw std::runtime_error(std::string(what) + ": " + ucs_status_string(status));
}

const char* error_of(ucs_status_t status) {
  return status == UCS_OK ? nullptr : ucs_status_string(status);
}

void end(Transfer& transfer, ucs_status_t status, std::size_t bytes) {
  transfer.request = nullptr;
  transfer.bytes = bytes;
  transfer.error = error_of(status);
  transfer.ended(transfer);
}

void on_sent(void* request, ucs_status_t status, void* transfer) {
  ucp_request_free(request);
  end(*static_cast<Transfer*>(transfer), status, 0);
}

void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                 void* transfer) {
  ucp_request_free(request);
  end(*static_cast<Transfer*>(transfer), status, status == UCS_OK ? info->length : 0);
}

class Context {
 public:
  Context(const char* transports, const char* devices) {
    ucp_config_t* config = nullptr;
    expect(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    const auto set = [config](const char* name, const char* value) {
      const ucs_status_t status = ucp_config_modify(config, name, value);
      if (status == UCS_OK) return;
      ucp_config_release(config);
      expect(status, name);
    };
    if (*transports != '\0') set("TLS", transports);
    if (*devices != '\0') set("NET_DEVICES", devices);
    // The receiver reads from the sender's memory: only its owner writes to memory.
    set("RNDV_SCHEME", "get_zcopy");
    // Bounds what a slow receiver has to keep: the sender is held back beyond this.
    set("RNDV_THRESH", "16k");
    // The rendezvous watches over the ranks.
    set("KEEPALIVE_INTERVAL", "inf");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    params.mt_workers_shared = 0;
    const ucs_status_t status = ucp_init(&params, config, &context_);
    ucp_config_release(config);
    expect(status, "ucp_init");
  }
  ~Context() { ucp_cleanup(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ucp_context_h get() const { return context_; }

 private:
  ucp_context_h context_ = nullptr;
};

class Worker {
 public:
  explicit Worker(const Context& context) {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    expect(ucp_worker_create(context.get(), &params, &worker_), "ucp_worker_create");
  }
  ~Worker() { ucp_worker_destroy(worker_); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ucp_worker_h get() const { return worker_; }

 private:
  ucp_worker_h worker_ = nullptr;
};

class UcxWire final : public Wire {
 public:
  UcxWire(const char* transports, const char* devices)
      : context_(std::make_unique<Context>(transports, devices)),
        worker_(std::make_unique<Worker>(*context_)) {
    ucp_address_t* address = nullptr;
    std::size_t length = 0;
    expect(ucp_worker_get_address(worker(), &address, &length), "ucp_worker_get_address");
    address_.assign(reinterpret_cast<const char*>(address), length);
    ucp_worker_release_address(worker(), address);
    expect(ucp_worker_get_efd(worker(), &descriptor_), "ucp_worker_get_efd");
  }
  ~UcxWire() override {
    if (settled_) return;
    // UCX aborts if it is destroyed with messages under way: both are left to the kernel then.
    static_cast<void>(worker_.release());
    static_cast<void>(context_.release());
  }

  const std::string& address() const override { return address_; }

  void connect(int peer, std::string_view address) override {
    if (peers_.contains(peer)) return;
    settled_ = false;
    Peer& end = peers_[peer];
    end.wire = this;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = [](void* broken, ucp_ep_h /*endpoint*/, ucs_status_t status) {
      Peer& gone = *static_cast<Peer*>(broken);
      gone.error = error_of(status);
      gone.wire->abandoned_ = true;
    };
    params.err_handler.arg = &end;
    const ucs_status_t status = ucp_ep_create(worker(), &params, &end.endpoint);
    if (status != UCS_OK) peers_.erase(peer);
    expect(status, "ucp_ep_create");
  }

  void send(int peer, std::uint64_t tag, const void* data, std::size_t bytes,
            Transfer& transfer) override {
    if (abandoned_) return;
    const auto found = peers_.find(peer);
    if (found == peers_.end() || found->second.endpoint == nullptr) {
      end(transfer, UCS_ERR_NOT_CONNECTED, 0);
      return;
    }
    ucp_request_param_t params{};
    params.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    params.cb.send = on_sent;
    params.user_data = &transfer;
    params.memory_type = UCS_MEMORY_TYPE_HOST;
    begun(transfer, ucp_tag_send_nbx(found->second.endpoint, data, bytes, tag, &params));
  }

  void receive(std::uint64_t tag, void* data, std::size_t bytes, Transfer& transfer) override {
    if (abandoned_) return;
    ucp_request_param_t params{};
    // If the message had already come, only the callback tells its length.
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                          UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    params.cb.recv = on_received;
    params.user_data = &transfer;
    params.memory_type = UCS_MEMORY_TYPE_HOST;
    char before = 0;
    transfer.request = &before;
    const ucs_status_ptr_t request =
        ucp_tag_recv_nbx(worker(), data, bytes, tag, ~std::uint64_t{0}, &params);
    // The callback may have run already.
    if (transfer.request == &before) begun(transfer, request);
  }

  void cancel(Transfer& transfer) override {
    if (!abandoned_ && transfer.request != nullptr) ucp_request_cancel(worker(), transfer.request);
  }

  bool progress() override { return !abandoned_ && ucp_worker_progress(worker()) != 0; }
  bool arm() override { return abandoned_ || ucp_worker_arm(worker()) == UCS_OK; }
  int descriptor() const override { return descriptor_; }

  const char* broken(int peer) const override {
    const auto found = peers_.find(peer);
    return found == peers_.end() ? nullptr : found->second.error;
  }

  void flush(Clock::time_point deadline) noexcept override {
    if (abandoned_) return;
    const ucp_request_param_t params{};
    std::vector<ucs_status_ptr_t> flushes = {ucp_worker_flush_nbx(worker(), &params)};
    settled_ = finish(flushes, deadline);
  }

  void flush_and_close(Clock::time_point deadline) noexcept override {
    if (abandoned_) return;
    flush(deadline);
    close(deadline);
    flush(deadline);
    settled_ = settled_ && !abandoned_;
  }

  // UCX 1.13 may end the process where connections end or break on both sides at once ("Assertion
  // `ep->conn_state != UCT_TCP_EP_CONN_STATE_CLOSED' failed", "remote_id == ..."), whoever closes
  // them. So a broken connection is not used again: without progress it reads and writes nothing.
  void abandon() noexcept override { abandoned_ = true; }

 private:
  struct Peer {
    UcxWire* wire = nullptr;
    ucp_ep_h endpoint = nullptr;
    const char* error = nullptr;
  };

  static void begun(Transfer& transfer, ucs_status_ptr_t request) {
    if (UCS_PTR_IS_PTR(request)) {
      transfer.request = request;
    } else {
      end(transfer, UCS_PTR_STATUS(request), 0);
    }
  }

  ucp_worker_h worker() const { return worker_->get(); }

  void close(Clock::time_point deadline) noexcept {
    if (abandoned_) return;
    std::vector<ucs_status_ptr_t> closings;
    for (auto& [peer, end] : peers_) {
      if (end.endpoint == nullptr) continue;
      const ucp_request_param_t params{};
      closings.push_back(ucp_ep_close_nbx(std::exchange(end.endpoint, nullptr), &params));
    }
    finish(closings, deadline);
  }

  // Waits for requests without a callback; false if one is not complete at the deadline.
  bool finish(std::vector<ucs_status_ptr_t>& requests, Clock::time_point deadline) noexcept {
    bool all = true;
    for (const ucs_status_ptr_t request : requests) {
      if (!UCS_PTR_IS_PTR(request)) continue;
      while (ucp_request_check_status(request) == UCS_INPROGRESS && !abandoned_ &&
             Clock::now() < deadline) {
        ucp_worker_progress(worker());
      }
      // A request under way still belongs to UCX.
      if (abandoned_) return false;
      all = all && ucp_request_check_status(request) != UCS_INPROGRESS;
      ucp_request_free(request);
    }
    return all;
  }

  std::unique_ptr<Context> context_;
  std::unique_ptr<Worker> worker_;
  bool settled_ = true;     // no message is under way
  bool abandoned_ = false;  // messages no longer move
  std::string address_;
  int descriptor_ = -1;
  std::map<int, Peer> peers_;  // UCX refers to their addresses
};

}  // namespace
}  // namespace phalanx::ucx

extern "C" __attribute__((visibility("default"))) phalanx::ucx::Wire* phalanx_make_ucx_wire(
    const char* transports, const char* devices) {
  return new phalanx::ucx::UcxWire(transports, devices);
}
