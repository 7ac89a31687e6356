// The subcommands of `tandem`, one file each. They take parsed arguments and return an exit code. `run` turns
// exceptions into exit codes (core/exit_codes.h): UserError 2, others 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/exit_codes.h"
#include "tasks/task.h"

namespace tandem::cli {

struct ConfigArguments {
  std::string config;  // path, shipped name, or run directory
  std::vector<std::string> overrides;
};

struct TrainArguments : ConfigArguments {
  std::string resume;  // empty: a new run
  bool dry_run = false, quiet = false;
  std::optional<std::int64_t> limit_steps, overfit_batches;
};

struct RunArguments {
  std::string run;
  std::string weights;  // best, last, step-N or a file; empty: the command's default
  std::vector<std::string> overrides;
};

struct EvalArguments : RunArguments {
  std::string split = "test";
  bool confusion = false, json = false;
  bool breakdown = false;
  std::string out;            // folder for artifacts of the evaluation; empty: none
  bool in_precision = false;  // in the run's own precision instead of FP32 masters
};

struct PredictArguments : RunArguments {
  tasks::PredictRequest request;
};

struct ExportArguments : RunArguments {
  std::string format;  // safetensors, npz or onnx
  std::string out;     // empty: RUN/exports/WEIGHTS.FORMAT
  int opset = 17;      // or 23; of onnx files
  bool suppress = false, json = false;
};

struct BenchArguments : ConfigArguments {
  std::int64_t steps = 30, warmup = 5;
  bool json = false;
  bool profile = false;    // by op, see studies/profile
  bool serve = false;      // blocks of steps on request, for `compare`
  std::string algorithms;  // file of algorithm choices; empty: none is written
};

struct PlanArguments : ConfigArguments {
  std::string policy = "cut";
  std::string dtype;  // fp16 or bf16; empty: the configuration's
  std::string out = "plan.json";
  std::vector<std::string> must;  // "EXPRESSION=f32"
  std::optional<double> limit;    // of policy search
  double seconds = 10.0;
  bool free = false;  // rounding
  bool force = false, json = false;
};

struct PlanDifferenceArguments {
  std::string first, second;
};

struct AdviseArguments : ConfigArguments {
  double seconds = 5.0;
  bool json = false;
};

struct CompareArguments : ConfigArguments {
  std::string require;  // "equivalent", or empty
  std::string out;      // empty: runs/NAME-compare
  bool no_speed = false;
  std::string largest_batch;  // "4GiB": search the largest batch that fits; empty: do not
};

struct InspectArguments {
  std::string subject;  // a run, a configuration, or a .safetensors file
  std::vector<std::string> overrides;
  std::string weights;  // best, last, step-N or a file; empty: last
  bool casts = false, gradients = false, headroom = false, blame = false, json = false;
  std::optional<std::int64_t> batches;  // absent: 4, or 1 for --blame
  std::string out;                      // file of the chart
};

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out;  // empty: report.html of a single run
  bool csv = false, gradients = false, json = false;
};

struct DemoArguments {
  std::string name;
  std::string out;   // empty: runs/demo-NAME
  std::string text;  // corpus of diverge and language; empty: that of `./run data`
  bool small = false;
};

struct ShowArguments : ConfigArguments {
  bool json = false;
};

struct CopyArguments {
  std::string name, file;
  bool force = false;
};

struct ListArguments {
  std::string what;
  std::string prefix;  // of the listed names; empty: all
  bool json = false;
  bool json_schema = false, markdown = false;
};

struct EnvironmentArguments {
  bool json = false;
};

int train(const TrainArguments& arguments);
int eval(const EvalArguments& arguments);
int predict(const PredictArguments& arguments);
int export_weights(const ExportArguments& arguments);
int bench(const BenchArguments& arguments);
int plan(const PlanArguments& arguments);
int advise(const AdviseArguments& arguments);
int plan_difference(const PlanDifferenceArguments& arguments);
int compare(const CompareArguments& arguments);
int inspect(const InspectArguments& arguments);
int report(const ReportArguments& arguments);
int demo(const DemoArguments& arguments);
int validate(const ShowArguments& arguments);
int show(const ShowArguments& arguments);
int summary(const ShowArguments& arguments);
int copy(const CopyArguments& arguments);
int list(const ListArguments& arguments);
int environment(const EnvironmentArguments& arguments);

// Runs the program.
int run(int argc, char** argv);

}  // namespace tandem::cli
