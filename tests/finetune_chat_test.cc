// finetune chat and plan finetune chat, as they are typed, with a tiny Llama in Hugging Face's
// form.

#include "program_test.h"

namespace phalanx {
namespace {

using Output = ProgramOutput;

constexpr const char* kTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}"
    "{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

class FinetuneChat : public ProgramTest {
 protected:
  FinetuneChat() {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      text += Json{{"messages",
                    {{{"role", "user"}, {"content", fmt::format("What is {}?", i)}},
                     {{"role", "assistant"}, {"content", fmt::format("It is {}.", i * 7)}}}}}
                  .dump() +
              "\n";
    }
    write("chats.jsonl", text);
  }

  // A tokenizer of bytes with the tokens of ChatML, and a model of random weights, as a folder.
  void make_folder(const std::string& flags = "") const {
    Json vocabulary;
    for (int byte = 0; byte < 256; ++byte) vocabulary[symbol(byte)] = byte;
    Json added = Json::array();
    int id = 256;
    for (const char* token : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"}) {
      added.push_back({{"id", id++},
                       {"content", token},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    }
    const Json byte_level = {{"type", "ByteLevel"},
                             {"add_prefix_space", false},
                             {"trim_offsets", true},
                             {"use_regex", true}};
    const Json tokenizer = {
        {"version", "1.0"},
        {"added_tokens", added},
        {"normalizer", nullptr},
        {"pre_tokenizer", byte_level},
        {"post_processor", nullptr},
        {"decoder", byte_level},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
    std::filesystem::create_directory(directory_ / "tokenizer");
    write("tokenizer/tokenizer.json", tokenizer.dump());
    write(
        "tokenizer/tokenizer_config.json",
        R"({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"})");
    const Output made =
        run("pretrain gpt --mock-data --tokenizer-type HuggingFaceTokenizer --tokenizer-model "
            "tokenizer "
            "--num-layers 2 --hidden-size 32 --ffn-hidden-size 48 --num-attention-heads 4 "
            "--group-query-attention --num-query-groups 2 --normalization RMSNorm --swiglu "
            "--position-embedding-type rope --disable-bias-linear --hidden-dropout 0 "
            "--attention-dropout 0 --untie-embeddings-and-output-weights --seq-length 128 "
            "--max-position-embeddings 128 --micro-batch-size 1 --train-iters 1 --lr 1e-3 "
            "--eval-iters 0 --threads-per-rank 1 --save made --save-interval 1 " +
            flags);
    ASSERT_EQ(made.status, 0) << made.err;
    const Output exported = run("export hf --load made --output folder");
    ASSERT_EQ(exported.status, 0) << exported.err;
    write("folder/chat_template.jinja", kTemplate);
  }

  static std::string command(const std::string& flags) {
    return "finetune chat --load folder --data chats.jsonl --threads-per-rank 1 " + flags;
  }
  void expect_done(const std::string& words) const {
    const Output output = run(words);
    ASSERT_EQ(output.status, 0) << words << "\n" << output.err;
  }
  std::vector<Json> evaluations(const std::string& save) const {
    std::vector<Json> found;
    std::istringstream lines(read(save + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      if (json.contains("eval")) found.push_back(json);
    }
    return found;
  }

 private:
  // GPT-2's character for a byte.
  static std::string symbol(int byte) {
    const auto is_shown = [](int b) {
      return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    };
    int code = byte;
    if (!is_shown(byte)) {
      code = 256;
      for (int b = 0; b < byte; ++b) code += is_shown(b) ? 0 : 1;
    }
    if (code < 128) return {static_cast<char>(code)};
    return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
  }
};

TEST_F(FinetuneChat, TrainsAFolderWithDefaults) {
  make_folder();
  const Output first = run(command("--save run"));
  ASSERT_EQ(first.status, 0) << first.err;
  // A conversation has some 40 tokens, so none shares a sample.
  for (const char* line :
       {"sequence length 64: 40 of 40 conversations", "3 epochs of 38 samples: 29 iterations of 4",
        "folder: a folder of Hugging Face's: its weights are imported to run/base, once",
        "best checkpoint: run/iter_00000"}) {
    EXPECT_NE(first.err.find(line), std::string::npos) << line << "\n" << first.err;
  }
  EXPECT_GE(evaluations("run").size(), 3U);  // of each epoch
  EXPECT_TRUE(std::filesystem::exists(directory_ / "run/iter_0000010/chat_template.jinja"));
  const auto loss_of = [](const Json& line) { return line.at("lm_loss").get<double>(); };
  const auto lines = metrics("run");
  EXPECT_LT(loss_of(lines.back()), loss_of(lines.front()));

  // Again: nothing is left to do, and nothing is imported.
  const Output again = run(command("--save run"));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.err.find("--save run: all of its 29 iterations are done"), std::string::npos)
      << again.err;
  EXPECT_EQ(again.err.find("imported"), std::string::npos) << again.err;
  EXPECT_EQ(metrics("run").size(), lines.size());
}

// What the data say in vain, and what the template leaves untrained, is said once before training.
TEST_F(FinetuneChat, WarnsOfKeysThatChangeNothingAndOfAnswersWithoutEnd) {
  make_folder();
  write("folder/chat_template.jinja",
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.name | default('') }}"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
        "{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += Json{{"id", i},
                 {"tools", Json::array()},
                 {"messages",
                  {{{"role", "user"}, {"content", "q"}, {"name", "Ann"}},
                   {{"role", "assistant"}, {"content", "a"}, {"weight", i % 2}, {"score", 0.5}}}}}
                .dump() +
            "\n";
  }
  write("chats.jsonl", text);
  const Output output = run(command("--save run --train-iters 1 --held-out 0"));
  ASSERT_EQ(output.status, 0) << output.err;
  const auto times = [&](std::string_view sought) {
    int found = 0;
    for (std::size_t at = 0; (at = output.err.find(sought, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  for (const char* line :
       {"\nwarning: chats.jsonl: these keys change nothing: \"id\" (40), \"score\" of messages "
        "(40)\n",
        "\nwarning: chats.jsonl: no trained token is '<|im_end|>', with which the template ends a "
        "turn: answers will not end",
        "\nwarning: chats.jsonl: 20 conversations of the train part are left out: none of their "
        "tokens is trained"}) {
    EXPECT_EQ(times(line), 1) << line << "\n" << output.err;
  }
}

TEST_F(FinetuneChat, GoesOnAfterAnInterruptionWithTheSameBits) {
  make_folder();
  const std::string flags = "--epochs 1 --lr 1e-3 ";
  expect_done(command(flags + "--save whole"));
  expect_done(command(flags + "--save part --exit-interval 4"));
  const Output rest = run(command(flags + "--save part"));
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_NE(rest.err.find("--save part: goes on after iteration 4"), std::string::npos) << rest.err;
  EXPECT_EQ(run("checkpoint diff whole part").status, 0);
}

TEST_F(FinetuneChat, TrainsAdaptersAlone) {
  make_folder();
  const Output output = run(command("--save run --lora --epochs 1"));
  ASSERT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.err.find("LoRA rank 16 of"), std::string::npos) << output.err;
  EXPECT_NE(read("run/iter_0000010/manifest.json").find("--lora-alpha"), std::string::npos);
}

TEST_F(FinetuneChat, TrainsAModelWithExperts) {
  make_folder("--num-experts 4 --moe-ffn-hidden-size 16");
  const Output output = run(command("--save run --epochs 1"));
  ASSERT_EQ(output.status, 0) << output.err;
  const Output plan = run("plan finetune chat --load folder --data chats.jsonl --json");
  ASSERT_EQ(plan.status, 0) << plan.err;
  const Json model = Json::parse(plan.out).at("model");
  EXPECT_LT(model.at("active_parameters"), model.at("parameters"));
  expect_error("generate --load run --prompt a --tensor-model-parallel-size 2", 78,
               "--tensor-model-parallel-size 2: the model at --load run has experts");
  const Output exported = run("export hf --load run --output out");
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_EQ(Json::parse(read("out/config.json")).at("architectures"), Json({"MixtralForCausalLM"}));
  expect_error(command("--save adapters --lora"), 78, "--num-experts 4 and --lora-rank");
}

TEST_F(FinetuneChat, IsPlannedWithoutWeights) {
  make_folder();
  const Output plan =
      run("plan finetune chat --load folder --data chats.jsonl --cpu-target avx2 --json");
  ASSERT_EQ(plan.status, 0) << plan.err;
  EXPECT_EQ(Json::parse(plan.out).at("model").at("sequence_length"), 64);
  EXPECT_NE(plan.err.find("in microbatches of 4"), std::string::npos) << plan.err;
  // The answers to held-out conversations need memory, too.
  EXPECT_GT(Json::parse(plan.out).at("ranks").at(0).at("bytes").at("answers"), 0);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run"));
  // Without conversations the plan is of an assumed length, which it says.
  const Output assumed = run("plan finetune chat --load folder --lora");
  ASSERT_EQ(assumed.status, 0) << assumed.err;
  EXPECT_NE(assumed.err.find("the plan is of samples of 128 tokens"), std::string::npos)
      << assumed.err;
}

TEST_F(FinetuneChat, SaysWhatIsWrong) {
  expect_error("finetune talk", 64, "talk");
  expect_error("finetune chat --load nowhere --data chats.jsonl --save run", 66,
               "--load nowhere: it is not there");
  make_folder();
  expect_error("finetune chat --data chats.jsonl --save run", 64, "--load");
  expect_error("finetune chat --load folder --save run", 64, "--data");
  expect_error(command(""), 78, "--save must be given");
  expect_error(command("--save folder"), 78, "--load folder is --save itself");
  expect_error("finetune chat --load folder --data none.jsonl --save run", 66, "none.jsonl");
  expect_error(command("--save run --use-dora"), 78, "give --lora");
  expect_error(command("--save run --dpo"), 78, "preferences are not trained");
  expect_error(command("--save run --finetune"), 78, "leave the flag out");
  expect_error(command("--save run --epochs 1 --train-iters 4"), 78, "exclude each other");
  expect_error(command("--save run --held-out 0.1 --split 90,10,0"), 78, "exclude each other");
  expect_error(command("--save made"), 78, "holds a run that trains no conversations");
  write("bad.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})"
                     "\n");
  const Output bad = run("finetune chat --load folder --data bad.jsonl --save run");
  EXPECT_EQ(bad.status, 65) << bad.err;
  EXPECT_NE(bad.err.find("bad.jsonl"), std::string::npos) << bad.err;
  std::filesystem::remove(directory_ / "folder/chat_template.jinja");
  expect_error(command("--save run"), 78, "--chat-template FILE");
}

}  // namespace
}  // namespace phalanx
