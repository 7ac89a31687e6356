#include "cli/commands.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/build_info.h"
#include "core/cpu/level.h"
#include "core/cpu/openmp.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "files/json_text.h"
#include "files/output.h"
#include "parallel/launch.h"
#include "samples/register.h"
#include "studies/demo/demo.h"

namespace tandem::cli {

namespace {

using Action = std::function<int()>;

constexpr const char* kOverrides =
    "path.to.key=value sets, +path.to.list=value appends, ~path.to.key removes";

constexpr const char* kJson = "print one JSON object";

// The command line: all subcommands with their arguments, and the action of the parsed one.
class Program {
 public:
  Program() : app_("Tandem trains neural networks from a JSON file.", "tandem") {
    app_.set_version_flag("--version", fmt::format("tandem {}", version()), "print the version and exit");
    app_.require_subcommand(0, 1);
    std::string footer =
        "`tandem ls keys` describes the keys of configurations; `tandem ls configs` lists shipped ones.\n\n"
        "Exit codes:";
    for (const ExitCode& each : kExitCodes) footer += fmt::format("\n  {:<3} {}", each.code, each.meaning);
    app_.footer(footer);
    add_train();
    add_eval();
    add_predict();
    add_export();
    add_compare();
    add_bench();
    add_plan();
    add_advise();
    add_inspect();
    add_report();
    add_demo();
    add_configuration_commands();
    add_list();
  }

  int run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& asked) {  // --help or --version
      std::ostringstream answer;
      const int code = app_.exit(asked, answer, answer);
      output::write_result(answer.str());
      return code;
    } catch (const CLI::ParseError& error) {
      print_error_once(parse_error_text(error, argc, argv));
      return kExitUsage;
    }
    if (!action_) {
      output::print("{}", app_.help());
      return 0;
    }
    return refuses_ranks() ? kExitUsage : action_();
  }

 private:
  // Prints an error of all ranks on the first rank only. The others wait for it, since mpirun ends all ranks
  // when one exits with an error.
  static void print_error_once(const std::string& text) {
    const auto launch = parallel::launch_from_environment();
    if (!launch || launch->size == 1) return output::print_error(text);
    const auto ranks = parallel::open_communicator();
    if (ranks->rank() == 0) output::print_error(text);
  }

  // Commands of one process are refused under mpirun.
  bool refuses_ranks() const {
    const auto launch = parallel::launch_from_environment();
    if (!launch || launch->size == 1) return false;
    const std::string name = app_.get_subcommands().front()->get_name();
    if (name == "train" || name == "bench" || name == "env") return false;
    print_error_once(
        fmt::format("{}: runs in one process, and mpirun started {}; only `tandem train`, `bench` and `env` "
                    "run in several",
                    name, launch->size));
    return true;
  }

  template <class Arguments>
  CLI::App* command(const char* name, const char* help, Arguments& arguments,
                    int (*function)(const Arguments&)) {
    CLI::App* sub = app_.add_subcommand(name, help);
    names_.emplace_back(name);
    sub->callback(
        [this, &arguments, function] { action_ = [&arguments, function] { return function(arguments); }; });
    return sub;
  }

  static void add_config(CLI::App* sub, ConfigArguments& arguments, bool required = true) {
    sub->add_option("config", arguments.config, "configuration: a file, a shipped name, or a run directory")
        ->required(required);
    sub->add_option("overrides", arguments.overrides, kOverrides);
  }

  static void add_run(CLI::App* sub, RunArguments& arguments, const std::string& standard) {
    sub->add_option("run", arguments.run, "run directory")->required();
    sub->add_option(
        "--weights", arguments.weights,
        "best, last, step-N, or a .safetensors file, a checkpoint or another run; default: " + standard);
  }

  void add_train() {
    CLI::App* sub = command<TrainArguments>("train", "train a network", train_, &train);
    sub->add_option("config", train_.config,
                    "configuration: a file or a shipped name; or the directory of a run to resume");
    sub->add_option("overrides", train_.overrides, kOverrides);
    sub->add_option("--resume", train_.resume,
                    "auto: resume the newest unfinished run of this configuration, or start a new one; or a "
                    "run directory");
    sub->add_flag(
        "--dry-run", train_.dry_run,
        "check everything, read every sample, run one forward pass, print the summary; do not train");
    sub->add_option("--limit-steps", train_.limit_steps, "stop after N steps")
        ->check(CLI::Range(1, 1 << 30))
        ->type_name("N");
    sub->add_option("--overfit-batches", train_.overfit_batches,
                    "train and evaluate on the first N batches only; sets data.overfit_batches")
        ->check(CLI::Range(1, 1 << 30))
        ->type_name("N");
    sub->add_flag("-q,--quiet", train_.quiet, "print only the result");
  }

  void add_eval() {
    CLI::App* sub = command<EvalArguments>("eval", "evaluate the saved weights of a run", eval_, &eval);
    add_run(sub, eval_, "the weights of the run's last evaluation");
    sub->add_option("overrides", eval_.overrides, kOverrides);
    sub->add_option("--split", eval_.split, "split to evaluate")
        ->check(CLI::IsMember({"test", "validation", "train"}))
        ->capture_default_str();
    sub->add_flag("--in-precision", eval_.in_precision,
                  "compute in the run's own precision; default: FP32 from the FP32 masters");
    sub->add_flag("--confusion", eval_.confusion, "also print the confusion matrix");
    sub->add_flag("--by-class", eval_.breakdown, "also print the metrics of each class");
    sub->add_option(
        "--out", eval_.out,
        "folder for artifacts of the evaluation, such as detections in the formats of COCO and VOC");
    sub->add_flag("--json", eval_.json, kJson);
  }

  void add_predict() {
    CLI::App* sub = command<PredictArguments>(
        "predict", "predict on files, or generate samples, with the model of a run", predict_, &predict);
    add_run(sub, predict_, "best");
    tasks::PredictRequest& request = predict_.request;
    sub->add_option("inputs", request.inputs,
                    "files (images: JPEG, PNG; arrays: .npy) and folders of them; texts, text files, and - "
                    "for standard input");
    sub->add_option("--top", request.top,
                    "number of classes to print for each input (1), or of candidates for sampling (top-k)")
        ->check(CLI::Range(1, 1 << 20));
    sub->add_flag("--logits", request.logits, "print logits instead of probabilities");
    sub->add_flag("--json", request.json, "print one JSON object per line");
    sub->add_option("--out", request.out, "output file, or folder for several inputs");
    sub->add_option("--count", request.count, "number of samples, words or characters to generate")
        ->check(CLI::Range(1, 1 << 20));
    sub->add_option("--seed", request.seed, "seed of generation (0)")->check(CLI::NonNegativeNumber);
    sub->add_option("--prompt", request.prompt, "text to continue; - for standard input");
    sub->add_option("--question", request.questions,
                    "question about the inputs, which are contexts: texts, text files, or -; may be repeated")
        ->allow_extra_args(false);
    sub->add_option("--stop", request.stop,
                    R"(text that ends the generation, such as "." or "\n", the end of a line)");
    sub->add_option("--temperature", request.temperature,
                    "temperature of sampling (1); lower values favour likely choices; 0: always the "
                    "likeliest (greedy)")
        ->check(CLI::NonNegativeNumber);
    sub->add_option("--top-p", request.top_p,
                    "sample from the most likely candidates whose probabilities sum to this share (1)")
        ->check(CLI::Range(0.0, 1.0));
    sub->add_option("--repetition-penalty", request.repetition_penalty,
                    "divisor of the logits of words that the text already has (1); above 1 avoids repetition")
        ->check(CLI::PositiveNumber);
    sub->add_option(
        "--threshold", request.threshold,
        "detection: minimum score of boxes to show, 0 to 1 (eval.shown of the run); question answering: "
        "margin by which the score of no answer must exceed that of the best answer (eval.null_threshold)");
  }

  void add_export() {
    CLI::App* sub = command<ExportArguments>("export", "write the weights of a run for other programs",
                                             export_, &export_weights);
    add_run(sub, export_, "best");
    sub->add_option("overrides", export_.overrides, kOverrides);
    sub->add_option("--format", export_.format,
                    "safetensors or npz: FP32 weights and statistics under torchvision's names; onnx: the "
                    "network with its weights")
        ->required();
    sub->add_option(
        "--out", export_.out,
        "output file; default: RUN/exports/WEIGHTS.FORMAT. The graphs of an encoder–decoder go to "
        "NAME.encoder.onnx and NAME.decoder.onnx");
    sub->add_flag("--json", export_.json, kJson);
    sub->add_option(
           "--opset", export_.opset,
           "opset of onnx files: 17, or 23, which has operators for attention, rotary positions, RMS norms "
           "and GELU (17)")
        ->check(CLI::IsMember({17, 23}));
    sub->add_flag("--suppress", export_.suppress,
                  "for detectors with onnx: append non-maximum suppression to the network");
  }

  void add_inspect() {
    CLI::App* sub = command("inspect",
                            "show tensors of a run or file; dtypes and casts of every op; exponents of "
                            "gradients; sources of errors",
                            inspect_, &inspect);
    sub->add_option("subject", inspect_.subject,
                    "run directory or .safetensors file; for reports, a run or a configuration")
        ->required();
    sub->add_option("overrides", inspect_.overrides, kOverrides);
    sub->add_flag("--casts", inspect_.casts,
                  "dtype, rule and casts of every op for one batch; memory by precision");
    sub->add_flag(
        "--gradients", inspect_.gradients,
        "exponents of the gradients of each layer, and the share that FP16 flushes at each loss scale");
    sub->add_flag("--headroom", inspect_.headroom,
                  "bits until the gradients of each layer overflow FP16 at the run's loss scale");
    sub->add_flag("--blame", inspect_.blame,
                  "share of each op in the 16-bit error of a step's gradient, and its cause");
    sub->add_option("--batches", inspect_.batches,
                    "number of training batches for reports on gradients; default: 4, for --blame 1");
    sub->add_option("--weights", inspect_.weights,
                    "best, last, step-N, or a .safetensors file, a checkpoint or another run; default: last");
    sub->add_option("--out", inspect_.out, "file for the chart of --gradients (SVG)")->type_name("FILE");
    sub->add_flag("--json", inspect_.json, kJson);
  }

  void add_plan() {
    CLI::App* sub =
        command("plan", "choose the dtype of every op by measurements on this machine", plan_, &cli::plan);
    add_config(sub, plan_, false);
    sub->add_option("--policy", plan_.policy,
                    "cut: the cheapest dtypes; search: the cheapest that keep the gradient's error within "
                    "--limit; rules, colours, growth: by op lists")
        ->check(CLI::IsMember({"rules", "colours", "growth", "cut", "search"}))
        ->capture_default_str();
    sub->add_option("--dtype", plan_.dtype, "16-bit dtype; default: the configuration's")
        ->check(CLI::IsMember({"bf16", "fp16"}));
    sub->add_option("--must", plan_.must, "fix the dtype of matching ops: \"^fc=f32\", \"^block3=low\"")
        ->allow_extra_args(false);
    sub->add_flag("--free", plan_.free, "allow rounding where level O1 does not round");
    sub->add_option("--limit", plan_.limit,
                    "for search: maximum relative error of loss and gradient against FP32")
        ->check(CLI::PositiveNumber);
    sub->add_option("--seconds", plan_.seconds, "time to measure ops, and again to measure steps")
        ->check(CLI::Range(0.0, 3600.0))
        ->capture_default_str();
    sub->add_option("--out", plan_.out, "output file")->type_name("FILE")->capture_default_str();
    sub->add_flag("--force", plan_.force, "write the plan even if its steps are slower than in FP32");
    sub->add_flag("--json", plan_.json, kJson);
    CLI::App* difference =
        sub->add_subcommand("diff", "compare two plans; exit code 1 if their dtypes differ");
    difference->add_option("first", plan_difference_.first, "a plan")->required();
    difference->add_option("second", plan_difference_.second, "another plan")->required();
    sub->callback([this, difference] {
      action_ = [this, difference] {
        return difference->parsed() ? plan_difference(plan_difference_) : plan(plan_);
      };
    });
  }

  void add_advise() {
    CLI::App* sub =
        command("advise", "show the performance bound of each op on this machine, and possible speedups",
                advise_, &cli::advise);
    add_config(sub, advise_, false);
    sub->add_option("--seconds", advise_.seconds, "time to measure ops")
        ->check(CLI::Range(0.0, 3600.0))
        ->capture_default_str();
    sub->add_flag("--json", advise_.json, kJson);
  }

  void add_report() {
    CLI::App* sub =
        command("report", "write an HTML page about a run, or comparing several", report_, &cli::report);
    sub->add_option("runs", report_.runs, "run directories; of several, the first is the baseline")
        ->required();
    sub->add_option("--out", report_.out,
                    "output file; default: report.html in the directory of a single run")
        ->type_name("FILE");
    sub->add_flag("--json", report_.json, kJson);
    sub->add_flag("--csv", report_.csv, "also write metrics.csv of each run, as at the end of training");
    sub->add_flag("--gradients", report_.gradients,
                  "compute exponents of activation and weight gradients from the saved weights, instead of "
                  "showing the recorded ones");
  }

  void add_demo() {
    CLI::App* sub =
        command("demo", "demonstrate effects of mixed precision, on real data in minutes", demo_, &demo);
    std::string names;
    for (const demo::Demo& d : demo::demos()) names += fmt::format("\n  {:<11} {}", d.name, d.help);
    sub->add_option("name", demo_.name, "name of the demonstration")->required();
    sub->add_option("--out", demo_.out, "folder for demo.json and the charts; default: runs/demo-NAME")
        ->type_name("DIR");
    sub->add_option("--text", demo_.text,
                    "corpus for diverge and language: package descriptions with their sources; default: the "
                    "corpus of `./run data`")
        ->type_name("FILE");
    sub->add_flag("--small", demo_.small,
                  "run in seconds instead of minutes; shows only the sign of the result");
    sub->footer("Demonstrations:" + names);
  }

  void add_compare() {
    CLI::App* sub = command<CompareArguments>(
        "compare", "train in several precisions with the same seeds and print a table", compare_, &compare);
    add_config(sub, compare_);
    sub->add_option("--require", compare_.require,
                    "equivalent: exit 1 unless every arm is equivalent to fp32")
        ->check(CLI::IsMember({"equivalent"}));
    sub->add_option("--out", compare_.out, "folder of the comparison; default: runs/NAME-compare")
        ->type_name("DIR");
    sub->add_flag("--no-speed", compare_.no_speed, "do not measure speed");
    sub->add_option("--largest-batch", compare_.largest_batch,
                    "also find the largest batch of each arm whose training step fits in this much memory, "
                    "such as 4GiB")
        ->type_name("MEMORY");
  }

  void add_bench() {
    CLI::App* sub = command<BenchArguments>("bench", "measure the training step", bench_, &bench);
    add_config(sub, bench_);
    sub->add_option("--steps", bench_.steps, "number of measured steps")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    sub->add_option("--warmup", bench_.warmup, "number of steps before")
        ->check(CLI::Range(0, 1 << 20))
        ->capture_default_str();
    sub->add_flag("--json", bench_.json, kJson);
    sub->add_flag("--profile", bench_.profile,
                  "also print the time of every op, and its share of the roofline");
    sub->add_flag("--serve", bench_.serve,
                  "measure on request, after --warmup steps: for each input line, \"compute N\", \"loader "
                  "N\" or \"memory\", print a line of JSON");
    sub->add_option("--algorithms", bench_.algorithms,
                    "file of a GPU's timed algorithm choices: read if it exists, written at the end; "
                    "default: reads the repository's table for the GPU")
        ->type_name("FILE");
  }

  void add_configuration_commands() {
    CLI::App* sub = command<ShowArguments>("validate", "check a configuration and list every problem",
                                           validate_, &validate);
    add_config(sub, validate_);
    sub->add_flag("--json", validate_.json, kJson);
    sub = command<ShowArguments>("show", "print the resolved configuration with the origin of each value",
                                 show_, &show);
    add_config(sub, show_);
    sub->add_flag("--json", show_.json, "print the JSON of a run directory's config.json");
    sub = command<ShowArguments>("summary", "print layers, shapes, parameters, FLOP and memory of a model",
                                 summary_, &summary);
    add_config(sub, summary_);
    sub->add_flag("--json", summary_.json, kJson);
    sub = command<CopyArguments>("cp", "copy a shipped configuration to a file", copy_, &copy);
    sub->add_option("name", copy_.name, "shipped name")->required();
    sub->add_option("file", copy_.file, "output file")->required();
    sub->add_flag("--force", copy_.force, "overwrite an existing file");
  }

  void add_list() {
    CLI::App* sub = command<ListArguments>("ls", "list available items", list_, &list);
    sub->add_option(
           "what", list_.what,
           "tasks, models, layers, datasets, transforms, losses, optimizers, schedules, ops, presets, "
           "configs or keys")
        ->check(CLI::IsMember({"tasks", "models", "layers", "datasets", "transforms", "losses", "optimizers",
                               "schedules", "ops", "presets", "configs", "keys"}));
    sub->add_option("prefix", list_.prefix, "only names that start with it, as in `ls keys data.augment`");
    sub->add_flag("--json", list_.json, kJson);
    sub->add_flag("--json-schema", list_.json_schema, "print keys as a JSON Schema, for editors");
    sub->add_flag("--markdown", list_.markdown, "print keys as the page docs/configuration.md");
    sub = command<EnvironmentArguments>("env", "print build, libraries, CPU, threads, memory and devices",
                                        environment_, &environment);
    sub->add_flag("--json", environment_.json, kJson);
  }

  std::string parse_error_text(const CLI::ParseError& error, int argc, char** argv) const {
    const std::string first = argc > 1 ? argv[1] : "";
    const bool known = std::find(names_.begin(), names_.end(), first) != names_.end();
    if (!first.empty() && first.front() != '-' && !known)
      return fmt::format("unknown command \"{}\"{}", first,
                         did_you_mean(first, names_).empty()
                             ? fmt::format("; there are {}", fmt::join(names_, ", "))
                             : did_you_mean(first, names_));
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    return known ? fmt::format("{}: {} (tandem {} --help)", first, what, first)
                 : fmt::format("{} (tandem --help)", what);
  }

  CLI::App app_;
  std::vector<std::string> names_;
  Action action_;
  TrainArguments train_;
  EvalArguments eval_;
  PredictArguments predict_;
  ExportArguments export_;
  PlanArguments plan_;
  AdviseArguments advise_;
  PlanDifferenceArguments plan_difference_;
  CompareArguments compare_;
  InspectArguments inspect_;
  ReportArguments report_;
  DemoArguments demo_;
  BenchArguments bench_;
  ShowArguments validate_, show_, summary_;
  CopyArguments copy_;
  ListArguments list_;
  EnvironmentArguments environment_;
};

// OpenMP accepts any number of threads in OMP_NUM_THREADS; limits it to the usable CPUs.
void limit_threads_to_usable_cpus() {
  const char* asked = std::getenv("OMP_NUM_THREADS");
  const bool lowered = cpu::bound_threads();
  const int count = cpu::threads();  // at most OMP_THREAD_LIMIT
  if (count < cpu::usable_cpus() && count == cpu::thread_limit())
    output::remark("tandem: OMP_THREAD_LIMIT={}: using that many threads\n", count);
  else if (lowered && asked)
    output::remark("tandem: OMP_NUM_THREADS={}: this process may use {} CPUs; using that many threads\n",
                   printable(asked), count);
}

int run_command(int argc, char** argv) {
  try {
    cpu::level_choice();  // throws if there is no usable level
    limit_threads_to_usable_cpus();
    samples::register_all();
    return Program().run(argc, argv);
  } catch (const UserError& error) {
    output::print_error(error.what());
    return kExitUsage;
  } catch (const std::filesystem::filesystem_error& error) {
    output::print_error(fmt::format("{}: {}", error.path1().string(), error.code().message()));
    return kExitFailure;
  } catch (const std::bad_alloc&) {
    output::print_error("there is not enough memory; use a smaller data.batch_size or model");
    return kExitFailure;
  } catch (const nlohmann::json::exception& error) {
    output::print_error("a JSON file is damaged: " + files::json_reason(error));
    return kExitFailure;
  } catch (const std::exception& error) {
    output::print_error(error.what());
    return kExitFailure;
  }
}

}  // namespace

int run(int argc, char** argv) {
  output::prepare_output();
  const int code = run_command(argc, argv);
  const auto error = output::output_error();
  if (!error) return code;
  output::remark("tandem: {}\n", *error);
  // A more specific code stays.
  return code == 0 ? kExitFailure : code;
}

}  // namespace tandem::cli
