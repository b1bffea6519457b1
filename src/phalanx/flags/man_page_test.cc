#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

TEST(ManPage, HasTheRowsThatWorkBySection) {
  std::int64_t layers = 2;
  std::string style = "linear";
  std::vector<std::string> paths;
  FlagSet flags("phalanx train", "Trains.");
  flags.add({.name = "--json", .help = "One JSON document", .state = FlagState::kRefused});
  flags.section("The \"size\"");
  flags.add(
      {.name = "--num-layers", .aliases = "--depth", .help = ".5 of them", .range = at_least(1)},
      &layers);
  flags.add({.name = "--style", .help = "'tis a\\b ~x", .choices = "linear cosine"}, &style);
  flags.add({.name = "--path", .help = "Data", .value_name = "PREFIX"}, &paths);
  EXPECT_EQ(man_page({.command = "phalanx train",
                      .version = "1.2",
                      .meaning = "Train a model.",
                      .usage = "phalanx train [PREFIX] FLAGS",
                      .description = "Trains a model",
                      .words = {{"PREFIX", "Of data"}},
                      .rows = flags.rows(),
                      .commands = {{"phalanx train gpt", "a GPT"}},
                      .statuses = {{"64", "The call is wrong."}},
                      .examples = {{"phalanx train \"a b\"", "in one"}},
                      .see = {"phalanx", "phalanx data"}}),
            R"(.TH "PHALANX\-TRAIN" 1 "" "Phalanx 1.2" "Phalanx"
.nh
.ad l
.SH "NAME"
phalanx\-train \- train a model
.SH "SYNOPSIS"
\fBphalanx\fR \fBtrain\fR \fI[PREFIX]\fR \fIFLAGS\fR
.SH "DESCRIPTION"
Trains a model.
.TP
\fIPREFIX\fR
Of data.
.SH "COMMANDS"
.TP
\fBphalanx\-train\-gpt\fR(1)
A GPT.
.SH "FLAGS"
.SS "The \(dqsize\(dq"
.TP
\fB\-\-num\-layers\fR \fIN\fR
\&.5 of them. At least 1. Also \-\-depth. The default is 2.
.TP
\fB\-\-style\fR \fBlinear\fR|\:\fBcosine\fR
\&\(aqtis a\eb \(tix. The default is linear.
.TP
\fB\-\-path\fR \fIPREFIX\fR...
Data.
.PP
1 more of Megatron\(aqs flags need nothing here or are refused: phalanx help \-\-markdown says why.
.SH "EXIT STATUS"
.TP
\fB64\fR
The call is wrong.
.SH "EXAMPLES"
.PP
In one:
.PP
.RS 4
.nf
phalanx train \(dqa b\(dq
.fi
.RE
.SH "SEE ALSO"
\fBphalanx\fR(1), \fBphalanx\-data\fR(1)
)");
}

}  // namespace
}  // namespace phalanx
