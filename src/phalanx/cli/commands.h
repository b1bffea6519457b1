#pragma once
// The commands of the program. Each takes the words after its name and returns the exit status;
// errors are thrown.

#include <string>
#include <vector>

namespace phalanx {

using Arguments = std::vector<std::string>;

int run_pretrain(const Arguments& arguments);
int run_finetune(const Arguments& arguments);
int run_launch(const Arguments& arguments);
int run_plan(const Arguments& arguments);
int run_schedule(const Arguments& arguments);
int run_grid(const Arguments& arguments);
int run_bench(const Arguments& arguments);
int run_generate(const Arguments& arguments);
int run_score(const Arguments& arguments);
int run_classify(const Arguments& arguments);
int run_evaluate(const Arguments& arguments);
int run_preprocess_data(const Arguments& arguments);
int run_train_tokenizer(const Arguments& arguments);
int run_tokenize(const Arguments& arguments);
int run_dataset(const Arguments& arguments);
int run_dataset_samples(const Arguments& arguments);  // the verb of it
int run_checkpoint(const Arguments& arguments);
int run_import(const Arguments& arguments);
int run_export(const Arguments& arguments);
int run_report(const Arguments& arguments);
int run_completion(const Arguments& arguments);
int run_help(const Arguments& arguments);
int run_version(const Arguments& arguments);

}  // namespace phalanx
