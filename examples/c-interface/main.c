/* Plans a small GPT, trains it, and prints what the run tells. docs/c-interface.md says how to
   build it. */
#include <phalanx/library/phalanx.h>
#include <stdio.h>

static const char* const kModel =
    "{\"model\": \"gpt\", \"flags\": {\"num-layers\": 2, \"hidden-size\": 32,"
    " \"num-attention-heads\": 2, \"seq-length\": 16, \"max-position-embeddings\": 16,"
    " \"micro-batch-size\": 2, \"global-batch-size\": 4, \"lr\": 1e-3, \"train-iters\": 3,"
    " \"tokenizer-type\": \"NullTokenizer\", \"vocab-size\": 63, \"mock-data\": true,"
    " \"threads-per-rank\": 1}}";

/* Called by a thread of the run. What is not 0 would stop it. */
static int tell(const char* type, const char* text, void* data) {
  (void)data;
  printf("%s %s\n", type, text);
  return 0;
}

/* Prints an answer and frees it. Returns the exit code. */
static int show(const char* name, phalanx_answer* answer) {
  const int code = phalanx_answer_code(answer);
  if (code == 0) printf("%s %s\n", name, phalanx_answer_text(answer));
  if (code != 0) fprintf(stderr, "%s: %s\n", name, phalanx_answer_error(answer));
  phalanx_answer_free(answer);
  return code;
}

int main(void) {
  int code;
  printf("Phalanx %s\n", phalanx_version());
  code = show("plan", phalanx_plan(kModel));
  if (code == 0) code = show("run", phalanx_run(kModel, tell, NULL, NULL));
  return code;
}
