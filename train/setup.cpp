#include "train/setup.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "config/precision.h"
#include "core/backend.h"
#include "core/cpu/level.h"
#include "core/cpu/openmp.h"
#include "core/device_library.h"
#include "core/error.h"
#include "core/random.h"
#include "data/limits.h"
#include "files/input.h"
#include "files/output.h"
#include "models/builder.h"
#include "models/weights.h"
#include "optim/registry.h"
#include "parallel/launch.h"
#include "runs/checkpoints.h"
#include "runs/run_data.h"
#include "train/planned.h"
#include "train/word_rows.h"

namespace tandem::train {

using config::Json;

namespace {

// Host and CPUs that a process may use.
struct Place {
  std::array<char, HOST_NAME_MAX + 1> host{};
  cpu_set_t cpus{};

  bool meets(const Place& other) const {
    cpu_set_t both;
    CPU_AND(&both, &cpus, &other.cpus);
    return host == other.host && CPU_COUNT(&both) > 0;
  }
};

Place own_place() {
  Place place;
  gethostname(place.host.data(), HOST_NAME_MAX);
  sched_getaffinity(0, sizeof place.cpus, &place.cpus);
  return place;
}

}  // namespace

void share_cpus(parallel::Communicator& ranks, double deadline_s) {
  if (ranks.size() == 1) return;
  const Place own = own_place();
  const auto bytes = std::as_bytes(std::span(&own, 1));
  std::vector<std::byte> all(bytes.size() * static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(bytes, all, deadline_s);
  int sharing = 0;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    Place other;
    std::memcpy(&other, all.data() + static_cast<std::size_t>(rank) * bytes.size(), bytes.size());
    sharing += own.meets(other) ? 1 : 0;
  }
  cpu::set_threads(std::max(1, cpu::threads() / std::max(1, sharing)));
}

void prepare_machine(const config::Loaded& loaded) {
  const auto& config = loaded.config;
  if (!config.threads) return;
  cpu::set_threads(static_cast<int>(*config.threads));
  cpu::bound_threads();
  const int count = cpu::threads();
  const auto launch = parallel::launch_from_environment();
  if (count < *config.threads && (!launch || launch->rank == 0))
    output::remark("tandem: threads={}: {}; using that many threads\n", *config.threads,
                   count == cpu::thread_limit() ? fmt::format("OMP_THREAD_LIMIT allows {}", count)
                                                : fmt::format("this process may use {} CPUs", count));
}

Device device_of(const config::Config& config) {
  if (config.device == "cpu") return {};
  const CudaDevices& found = cuda_devices();
  if (found.count == 0) {
    if (config.device == "auto") return {};
    throw VendorError(
        "", fmt::format("device=cuda: {}; use device=auto to fall back to the CPU", found.why_none));
  }
  const auto launch = parallel::launch_from_environment();
  const Device device{DeviceType::cuda,
                      static_cast<std::int8_t>(launch ? launch->local_rank % found.count : 0)};
  backend_for(device).set_rules({.allow_tf32 = config.allow_tf32,
                                 .deterministic = config.deterministic,
                                 .autotune = config.autotune && !config.deterministic});
  return device;
}

GraphUse graph_use(const config::Config& config) {
  return config.cuda_graph == "auto" ? GraphUse::automatic
         : config.cuda_graph == "on" ? GraphUse::on
                                     : GraphUse::off;
}

namespace {

bool any_parameter(nn::Module& model, const std::vector<std::string>& names) {
  const auto parameters = model.parameter_paths();
  return std::ranges::any_of(names, [&](const std::string& name) {
    return std::ranges::any_of(parameters, [&](const auto& each) { return each.first == name; });
  });
}

// Difference between the data that the weights were trained on and this data; "" if the former is unknown.
std::string data_differences(const tasks::Data& data, const safetensors::File& file) {
  if (!runs::has_saved_data(file)) return "";
  try {
    data.require_like(runs::saved_data(file.path()), file.path());
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::vector<std::string> initialise_from(const config::Config& config, tasks::Task& task) {
  if (!config.init_from) return {};
  nn::Module& model = task.model();
  const auto& from = *config.init_from;
  const std::string path = runs::initial_weights(config);
  const safetensors::File file(path);
  WordRows words = rows_by_word(config, task, file);
  const models::LoadReport fit = models::compare_weights(model, file, words.rows);
  if (from.strict) {
    const std::string rest = fit.loaded.empty() ? "no tensor fits"
                                                : fmt::format(
                                                      "set init_from.strict=false to load the {} tensors "
                                                      "that fit and keep the initial values of the others",
                                                      fit.loaded.size());
    require(fit.differences().empty(), "", "init_from.path: {}: the weights are not of this model: {}; {}",
            path, fit.differences(), rest);
  }
  require(any_parameter(model, fit.loaded), "",
          "init_from.path: {}: none of its {} tensors fits a parameter of this model: {}", path,
          file.entries().size(), fit.differences());
  // Words may differ: their rows are copied word by word.
  const std::string other_data = words.rows.empty() ? data_differences(*task.data(), file) : "";
  require(other_data.empty() || !from.strict, "",
          "init_from.path: {}; set init_from.strict=false to use these weights anyway", other_data);
  const models::LoadReport report = models::load_weights(
      model, file, {.strict = from.strict, .skip_mismatched = !from.strict, .rows = std::move(words.rows)});
  require_finite(model, "init_from.path: " + path);
  std::vector<std::string> notes{fmt::format("{}: {}", path, report.text())};
  if (!other_data.empty()) notes.push_back(other_data);
  std::ranges::move(words.notes, std::back_inserter(notes));
  if (const int frozen = freeze_parameters(config, model); frozen > 0)
    notes.push_back(fmt::format("{} parameters frozen", frozen));
  return notes;
}

void require_finite(nn::Module& model, const std::string& weights) {
  const auto bad = models::non_finite_weights(model);
  require(!bad, "", "{}: {}; the run that saved it diverged", weights, bad.value_or(""));
}

int freeze_parameters(const config::Config& config, nn::Module& model) {
  if (!config.init_from || !config.init_from->freeze) return 0;
  const std::string& names = *config.init_from->freeze;
  const int frozen = model.freeze(names);
  require(frozen > 0, "", "init_from.freeze: \"{}\" matches no parameter; `tandem summary` lists their names",
          names);
  return frozen;
}

optim::Schedule make_schedule(const config::Config& config, double lr, std::int64_t steps_per_epoch,
                              std::int64_t total_steps) {
  return optim::make_schedule(config.schedule,
                              {.lr = lr, .steps = total_steps, .steps_per_epoch = steps_per_epoch});
}

amp::Precision precision_of(const config::Config& config) { return config::precision_of(config.precision); }

std::unique_ptr<amp::ResolvedPrecision> resolve_precision(const config::Loaded& loaded, nn::Module& model) {
  if (const std::string text = plan_text_of(loaded); !text.empty())
    return std::make_unique<amp::ResolvedPrecision>(planned_types(loaded, text, model));
  try {
    return std::make_unique<amp::ResolvedPrecision>(precision_of(loaded.config), model);
  } catch (const options::OptionError& error) {
    const std::string path = options::joined("precision", error.path());
    throw UserError("",
                    fmt::format("{}: {}: {}", config::place_of(loaded.given, path), path, error.detail()));
  }
}

std::string level_note(Device device) {
  if (device.type != DeviceType::cpu || cpu::level_choice().is_best) return "";
  return fmt::format("using kernels of {}: {}", cpu::name_of(cpu::level()), cpu::level_choice().reason);
}

std::string precision_note(const config::Config& config, Device device) {
  if (config.precision.is_fp32() || device.type != DeviceType::cpu) return "";
  if (config.precision.dtype == "fp16")
    return "FP16 is emulated on a CPU (16-bit storage, FP32 arithmetic): it has the numerics of FP16, but is "
           "not faster";
  const cpu::Level level = cpu::level();
  if (level == cpu::Level::amx) return "";
  if (cpu::has_bf16_products(level))
    return "this CPU multiplies BF16 but has no AMX: BF16 halves the memory of activations and is at most "
           "twice as fast as FP32, not 16 times";
  return "this CPU has no AMX: BF16 halves the memory of activations here, but is not faster than FP32";
}

optim::StepOptions step_options(const config::Config& config) {
  optim::StepOptions options =
      amp::step_options(precision_of(config), static_cast<std::uint64_t>(config.seed));
  options.clip_norm = config.clip_norm;
  options.clip_value = config.clip_value;
  options.accumulate = static_cast<int>(config.accumulate);
  if (config.ema) options.ema = optim::EmaOptions{.decay = config.ema->decay, .warm_up = config.ema->warmup};
  if (config.asgd) options.ema = optim::EmaOptions{.uniform = true};
  return options;
}

}  // namespace tandem::train
