#pragma once
// The commands of the program. Each takes the words after its name and returns the exit status;
// errors are thrown.

#include <string>
#include <vector>

#include "phalanx/cli/command_io.h"

namespace phalanx {

using Arguments = std::vector<std::string>;

int run_pretrain(CommandIo& io, const Arguments& arguments);
int run_finetune(CommandIo& io, const Arguments& arguments);
int run_launch(CommandIo& io, const Arguments& arguments);
int run_plan(CommandIo& io, const Arguments& arguments);
int run_schedule(CommandIo& io, const Arguments& arguments);
// The same; the picture that --svg writes to a file, in addition, as a text. Null: none.
int schedule(CommandIo& io, const Arguments& arguments, std::string* picture);
int run_grid(CommandIo& io, const Arguments& arguments);
int run_bench(CommandIo& io, const Arguments& arguments);
int run_bench_disk(CommandIo& io, const Arguments& arguments);  // the verbs of it
int run_bench_device(CommandIo& io, const Arguments& arguments);
int run_bench_cluster(CommandIo& io, const Arguments& arguments);
int run_selftest(CommandIo& io, const Arguments& arguments);
int run_generate(CommandIo& io, const Arguments& arguments);
int run_score(CommandIo& io, const Arguments& arguments);
int run_classify(CommandIo& io, const Arguments& arguments);
int run_evaluate(CommandIo& io, const Arguments& arguments);
int run_preprocess_data(CommandIo& io, const Arguments& arguments);
int run_train_tokenizer(CommandIo& io, const Arguments& arguments);
int run_tokenize(CommandIo& io, const Arguments& arguments);
int run_dataset(CommandIo& io, const Arguments& arguments);
int run_dataset_samples(CommandIo& io, const Arguments& arguments);  // the verb of it
int run_checkpoint(CommandIo& io, const Arguments& arguments);
int run_import(CommandIo& io, const Arguments& arguments);
int run_export(CommandIo& io, const Arguments& arguments);
int run_report(CommandIo& io, const Arguments& arguments);
int run_completion(CommandIo& io, const Arguments& arguments);
int run_help(CommandIo& io, const Arguments& arguments);
int run_version(CommandIo& io, const Arguments& arguments);

}  // namespace phalanx
