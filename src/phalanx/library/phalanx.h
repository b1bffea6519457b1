#ifndef PHALANX_LIBRARY_PHALANX_H
#define PHALANX_LIBRARY_PHALANX_H
/* The C interface of Phalanx (libphalanx.so): requests and answers are JSON texts, errors are
 * values. docs/c-interface.md has every request and answer.
 *
 * A request is a JSON object. Commands take what the program's command takes:
 *   {"arguments": ["gpt", "--num-layers", "2"]}          the words behind the command, or
 *   {"model": "gpt", "flags": {"num-layers": 2, ...}}    the same as names and values.
 * A flag's name may be written with _ or -, and without the leading --. true gives the flag alone,
 * false and null leave it out, a list gives one word for each element. The answer's text is the
 * document that the command prints with --json.
 *
 * Texts are UTF-8 and end with a zero byte. All functions may be called from several threads at
 * once, except that a handle is used by one thread at a time. No function throws, installs a signal
 * handler, ends the process, or changes the calling thread's affinity or floating-point mode. */

#include <stddef.h> /* NOLINT(modernize-deprecated-headers): it is C */
#include <stdint.h> /* NOLINT(modernize-deprecated-headers) */

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a function changes its meaning or goes; new functions do not raise it. */
#define PHALANX_INTERFACE_VERSION 1
int phalanx_interface_version(void);
/* "0.1.0" */
const char* phalanx_version(void);

/* An answer: its code is 0, or an exit code of docs/exit-codes.md. Never NULL. */
typedef struct phalanx_answer phalanx_answer;
int phalanx_answer_code(const phalanx_answer* answer);
/* JSON, "" where the call failed. Valid until the answer is freed. */
const char* phalanx_answer_text(const phalanx_answer* answer);
/* One line for each fault, "" where the code is 0. Valid until the answer is freed. */
const char* phalanx_answer_error(const phalanx_answer* answer);
void phalanx_answer_free(phalanx_answer* answer);

/* Messages (notes, warnings, log lines of a run) go to standard error, or to this function; NULL:
 * to standard error again. level: 0 information, 1 warning, 2 error. It is called from any thread,
 * by one at a time; what is logged inside it goes to standard error. Once this returns, the
 * function before is not called any more. */
typedef void (*phalanx_log_function)(int level, const char* line, void* data);
void phalanx_set_log(phalanx_log_function log, void* data);

/* phalanx plan --json */
phalanx_answer* phalanx_plan(const char* request);
/* phalanx schedule --json; "picture": true adds "svg" */
phalanx_answer* phalanx_schedule(const char* request);
/* phalanx grid --json */
phalanx_answer* phalanx_grid(const char* request);
/* phalanx generate --json: {"load": DIR, "prompts": [...], "flags": {...}} -> a list of documents,
 * one for each prompt */
phalanx_answer* phalanx_generate(const char* request);
/* phalanx score --json: {"load": DIR, "texts": [...] or "tokens": [[...], ...], "flags": {...}}
 * -> a list of documents, one for each text */
phalanx_answer* phalanx_score(const char* request);
/* {"directories": [...]} -> {"html": "..."} */
phalanx_answer* phalanx_report(const char* request);
/* Any other command that ends by itself (preprocess-data, train-tokenizer, dataset, checkpoint,
 * import, export, ...): {"command": ["dataset", "info"], "arguments": [...] or "flags": {...},
 * "input": "standard input"} -> {"status": 0, "output": "what it printed"} */
phalanx_answer* phalanx_command(const char* request);

/* A request to stop: a run sees it after its iteration, saves where it has a directory, and ends.
 * NULL where there is no memory. It must outlive the run. */
typedef struct phalanx_stop phalanx_stop;
phalanx_stop* phalanx_stop_new(void);
void phalanx_stop_request(phalanx_stop* stop); /* from any thread, also from a signal handler */
void phalanx_stop_free(phalanx_stop* stop);

/* What a run tells: type is "begin", "iteration", "evaluation", "note" or "end"; text the JSON
 * object (iterations and evaluations: the line of metrics.jsonl, the others: that of events.jsonl).
 * Called by one thread of the run at a time, never by the caller's own. Returns 0, or not 0 to stop
 * as phalanx_stop_request does. */
typedef int (*phalanx_event_function)(const char* type, const char* text, void* data);
/* Trains: phalanx pretrain. All ranks are threads of this process. -> {"end":
 * "finished"|"preempted"|"stopped", "iteration": n, "consumed_samples": n}; code 0 where it
 * finished or was asked to stop. event and stop may be NULL. */
phalanx_answer* phalanx_run(const char* request, phalanx_event_function event, void* data,
                            phalanx_stop* stop);

/* A tokenizer: request {"flags": {"tokenizer-type": ..., "vocab-file": ...}} or {"load": DIR of a
 * checkpoint} -> {"vocab_size": n, "type": "...", "special_tokens": {"eod": n, ...}}. *tokenizer is
 * NULL where it fails; so is that of the other handles. */
typedef struct phalanx_tokenizer phalanx_tokenizer;
phalanx_answer* phalanx_tokenizer_open(const char* request, phalanx_tokenizer** tokenizer);
/* {"texts": [...]} -> {"ids": [[...], ...]}; "parse_special_tokens": true reads special tokens that
 * are written in the texts, "add_special_tokens": true adds those around a text. */
phalanx_answer* phalanx_tokenize(phalanx_tokenizer* tokenizer, const char* request);
/* {"ids": [[...], ...]} -> {"texts": [...]}; "skip_special_tokens": true leaves special tokens out.
 */
phalanx_answer* phalanx_detokenize(phalanx_tokenizer* tokenizer, const char* request);
void phalanx_tokenizer_close(phalanx_tokenizer* tokenizer);

/* The tensors of a checkpoint, in memory that is mapped from its file (of a checkpoint in parts:
 * read): read-only, not aligned to the elements, valid until the checkpoint is closed. ->
 * {"directory": "...", "iteration": n, "tensors":
 * {"name": {"dtype": "f32", "shape": [..]}, ...}, "manifest": {...}} */
typedef struct phalanx_checkpoint phalanx_checkpoint;
phalanx_answer* phalanx_checkpoint_open(const char* directory, phalanx_checkpoint** checkpoint);
/* -> {"dtype", "shape"}. The bytes are compared with the checkpoint's digest the first time. */
phalanx_answer* phalanx_checkpoint_tensor(phalanx_checkpoint* checkpoint, const char* name,
                                          const void** data, size_t* bytes);
void phalanx_checkpoint_close(phalanx_checkpoint* checkpoint);

/* The sequences of a dataset PREFIX.bin, PREFIX.idx, in mapped memory as the tensors above.
 * -> {"documents": n, "sequences": n, "tokens": n, "dtype": "u16"|"i32"|...} */
typedef struct phalanx_dataset phalanx_dataset;
phalanx_answer* phalanx_dataset_open(const char* prefix, phalanx_dataset** dataset);
/* -> {"tokens": n}: the ids of a sequence, from 0, in the dataset's dtype. */
phalanx_answer* phalanx_dataset_sequence(phalanx_dataset* dataset, int64_t index, const void** data,
                                         size_t* tokens);
void phalanx_dataset_close(phalanx_dataset* dataset);

#ifdef __cplusplus
}
#endif
#endif /* PHALANX_LIBRARY_PHALANX_H */
