// A graph of the frontend is built anew for every candidate plan, so that candidates are dropped one by one.
//
// What cuDNN 9.19 offers on an H100, asked through plans_on: ready-made engines where operands and result
// share one type; f32 from 16-bit operands and a bias on 16-bit results only from engines that are compiled
// for the shape, which take such a result from a pointwise operation behind the convolution; f64 in channels
// last not at all.
#include "core/cuda/dnn.h"

#include <cuda_runtime.h>
#include <cudnn_frontend.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/cuda/capture.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/error.h"

namespace tandem::cuda::dnn {

namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using Attributes = fe::graph::Tensor_attributes;
using Dims = std::vector<std::int64_t>;

// In the order of the addresses of Plan::run: the frontend takes addresses by ascending id.
enum Id : std::int64_t { kFirst = 1, kSecond, kAddend, kResult, kSum, kSumOfSquares };

std::string advice_for(const Convolution& p, const Rules& rules) {
  std::string advice;
  if (is_16bit(p.dtype) && (p.channels % 8 != 0 || p.out_channels % 8 != 0))
    advice = "channel counts that are multiples of 8 have more plans; ";
  if (rules.deterministic) advice += "fewer plans are deterministic; ";
  return advice +
         "another data type or a smaller data.batch_size may have a plan; CUDNN_LOGLEVEL_DBG=2 with "
         "CUDNN_LOGDEST_DBG=stderr shows the reasons of cuDNN";
}

[[noreturn]] void fail(Pass pass, const Convolution& p, const Rules& rules, std::string_view call,
                       std::string_view text) {
  constexpr std::size_t kMostText = 800;  // cuDNN may give its reasons for every engine
  throw VendorError("cudnn", fmt::format("{}: {}: {}; {}; {}", name_of(pass), call, text.substr(0, kMostText),
                                         to_string(p), advice_for(p, rules)));
}

void check(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  throw VendorError("cudnn",
                    fmt::format("{}: {}; the driver, the CUDA toolkit and cuDNN must fit one another", call,
                                cudnnGetErrorString(status)));
}

// ---- Graphs

fe::DataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return fe::DataType_t::HALF;
    case DType::bf16:
      return fe::DataType_t::BFLOAT16;
    case DType::f32:
      return fe::DataType_t::FLOAT;
    default:
      throw InternalError("cudnn", fmt::format("{} is not a type of its convolutions", name_of(dtype)));
  }
}

// cuDNN names axes as NCHW; the strides say channels last.
struct Layout {
  Dims dims, strides;
};

Layout channels_last(Index n, Index h, Index w, Index c) { return {{n, c, h, w}, {h * w * c, 1, w * c, c}}; }

struct Layouts {
  Layout x, filter, y;
};

Layouts layouts_of(const Convolution& p) {
  return {channels_last(p.batch, p.height, p.width, p.channels),
          channels_last(p.out_channels, p.kernel_height, p.kernel_width, p.channels / p.options.groups),
          channels_last(p.batch, p.out_height, p.out_width, p.out_channels)};
}

template <class Options>
Options with_options(const Conv2dOptions& o) {
  Options options;
  options.set_padding({o.padding[0], o.padding[1]})
      .set_stride({o.stride[0], o.stride[1]})
      .set_dilation({o.dilation[0], o.dilation[1]});
  return options;
}

std::unique_ptr<Graph> describe(Pass pass, const Convolution& p) {
  auto graph = std::make_unique<Graph>();
  graph->set_io_data_type(type_of(p.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto input = [&](const char* name, Id id, const Layout& layout, DType dtype) {
    return graph->tensor(Attributes()
                             .set_name(name)
                             .set_uid(id)
                             .set_dim(layout.dims)
                             .set_stride(layout.strides)
                             .set_data_type(type_of(dtype)));
  };
  const Layouts at = layouts_of(p);
  std::shared_ptr<Attributes> result;
  const Layout* layout = nullptr;
  switch (pass) {
    case Pass::forward:
      layout = &at.y;
      result =
          graph->conv_fprop(input("x", kFirst, at.x, p.dtype), input("filter", kSecond, at.filter, p.dtype),
                            with_options<fe::graph::Conv_fprop_attributes>(p.options));
      break;
    case Pass::input_gradient:
      layout = &at.x;
      result =
          graph->conv_dgrad(input("dy", kFirst, at.y, p.dtype), input("filter", kSecond, at.filter, p.dtype),
                            with_options<fe::graph::Conv_dgrad_attributes>(p.options));
      break;
    case Pass::filter_gradient: {
      layout = &at.filter;
      const auto x = input("x", kFirst, at.x, p.dtype);
      result = graph->conv_wgrad(input("dy", kSecond, at.y, p.dtype), x,
                                 with_options<fe::graph::Conv_wgrad_attributes>(p.options));
      break;
    }
  }
  const auto shape = [&] { result->set_dim(layout->dims).set_stride(layout->strides); };
  shape();
  const auto follow_with = [&](auto&&... operands) {
    result->set_data_type(fe::DataType_t::FLOAT);
    result = graph->pointwise(result, operands...);
    shape();
  };
  using fe::graph::Pointwise_attributes;
  if (p.bias) {
    const auto bias = input("bias", kAddend, channels_last(1, 1, 1, p.out_channels), DType::f32);
    follow_with(bias, Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  } else if (p.add) {
    const auto addend = input("addend", kAddend, *layout, p.result);
    follow_with(addend, Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  } else if (p.result != p.dtype) {
    follow_with(Pointwise_attributes().set_mode(fe::PointwiseMode_t::IDENTITY));
  }
  result->set_output(true).set_uid(kResult).set_data_type(type_of(p.result));
  if (p.sums) {
    const auto [sum, squares] = graph->genstats(result, fe::graph::Genstats_attributes());
    sum->set_output(true).set_uid(kSum).set_data_type(fe::DataType_t::FLOAT);
    squares->set_output(true).set_uid(kSumOfSquares).set_data_type(fe::DataType_t::FLOAT);
  }
  return graph;
}

// Nothing, or where and why it failed.
struct Failure {
  std::string call, text;
};
using Outcome = std::optional<Failure>;

Outcome outcome(std::string_view call, fe::error_t status) {
  if (status.is_good()) return {};
  return Failure{std::string(call), status.get_message()};
}

constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 30;  // bytes

// Asks the heuristics. A handle, or the description of a device that the graph holds already.
Outcome query(Graph& graph, cudnnHandle_t handle, const Convolution& problem, const Rules& rules) try {
  if (auto bad = outcome("validate", graph.validate())) return bad;
  if (auto bad = outcome("build_operation_graph",
                         handle ? graph.build_operation_graph(handle) : graph.build_operation_graph()))
    return bad;
  if (auto bad = outcome("create_execution_plans",
                         graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK})))
    return bad;
  using enum fe::NumericalNote_t;
  // Sums in 16 bits are not f32 sums, and the largest Winograd tiles lose several bits.
  std::vector<fe::NumericalNote_t> unwanted = {REDUCED_PRECISION_REDUCTION, WINOGRAD_TILE_13x13};
  if (rules.deterministic) unwanted.push_back(NONDETERMINISTIC);
  // cuDNN 9.19 notes no conversion of the inputs with its TF32 engines, but tensor cores know no other f32.
  if (problem.dtype == DType::f32 && !rules.allow_tf32)
    unwanted.insert(unwanted.end(), {TENSOR_CORE, DOWN_CONVERT_INPUTS});
  graph.deselect_numeric_notes(unwanted).deselect_workspace_greater_than(kMostWorkspace);
  return {};
} catch (const fe::cudnnException& error) {  // builders of descriptors throw what graphs return
  return Failure{"build_operation_graph", error.what()};
}

std::string name_at(const Graph& graph, std::int64_t index) {
  std::string name;
  return graph.get_plan_name_at_index(index, name).is_good() ? name : std::string();
}

// ---- Which plan

struct Key {
  Pass pass;
  Convolution problem;
  Rules rules;
  friend bool operator==(const Key&, const Key&) = default;
};

struct Hash {
  std::size_t operator()(const Key& key) const {
    const Convolution& p = key.problem;
    const Conv2dOptions& o = p.options;
    std::uint64_t hash = 0x9e3779b97f4a7c15u;
    for (const std::int64_t word : {p.batch,
                                    p.height,
                                    p.width,
                                    p.channels,
                                    p.out_height,
                                    p.out_width,
                                    p.out_channels,
                                    p.kernel_height,
                                    p.kernel_width,
                                    o.stride[0],
                                    o.stride[1],
                                    o.padding[0],
                                    o.padding[1],
                                    o.dilation[0],
                                    o.dilation[1],
                                    o.groups,
                                    static_cast<Index>(key.pass),
                                    static_cast<Index>(p.dtype),
                                    static_cast<Index>(p.result),
                                    Index{p.bias},
                                    Index{p.sums},
                                    Index{p.add},
                                    Index{key.rules.deterministic},
                                    Index{key.rules.allow_tf32},
                                    Index{key.rules.tune},
                                    static_cast<Index>(std::bit_cast<std::uint32_t>(key.rules.wide_cost))}) {
      hash ^= static_cast<std::uint64_t>(word);
      hash *= 0xff51afd7ed558ccdu;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

struct DestroyHandle {
  void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
};
using Handle = std::unique_ptr<cudnnContext, DestroyHandle>;

class Event {
 public:
  Event() { tandem::cuda::check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) {
    tandem::cuda::check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  float milliseconds_since(const Event& start) const {
    float milliseconds = 0;
    tandem::cuda::check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    tandem::cuda::check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

// ---- What a backend holds

struct Library::State {
  explicit State(CudaBackend& owner);

  CudaBackend& backend;
  Handle handle;  // on the stream of the backend
  Choices choices;
  std::unordered_map<Key, std::unique_ptr<Plan>, Hash> plans;  // nullptr: a fused one that is not to be used
  bool trying = false;                                         // a plan is tried out: none may go

  // Adds one; shapes that never repeat must not fill the memory: a full cache starts over.
  Plan* keep(const Key& key, std::unique_ptr<Plan> plan);
};

namespace {

// One plan that is ready to run.
struct Candidate {
  std::unique_ptr<Graph> graph;
  std::int64_t index = 0;
  std::string name;
  std::int64_t workspace = 0;  // bytes
};

bool is_fused(const Convolution& p) { return p.sums || p.add; }

// What the table of choices says of a fused problem whose rival won.
constexpr std::string_view kSeparately = "separately";

// How the table of choices names a plan, and what precedes its name there.
std::string choice_text(const Convolution& carried, std::string_view name) {
  return fmt::format("{}{}{}{}: {}", tandem::name_of(carried.result), carried.bias ? " with bias" : "",
                     carried.sums ? " with sums" : "", carried.add ? " with addend" : "", name);
}

Outcome execute(const Candidate& candidate, const Library::State& library, const Addresses& addresses) {
  constexpr std::size_t kWorkspaceAlignment = 256;
  void* pointers[std::tuple_size_v<Addresses>];
  int count = 0;
  for (const void* address : addresses) {
    if (address) pointers[count++] = const_cast<void*>(address);
  }
  // Given back before the kernels run, and rightly so: blocks are used in the order of the stream.
  Tensor workspace;
  void* room = nullptr;
  if (candidate.workspace > 0) {
    workspace =
        library.backend.workspace({candidate.workspace + static_cast<Index>(kWorkspaceAlignment)}, DType::u8);
    const auto address = reinterpret_cast<std::uintptr_t>(workspace.raw());
    room = reinterpret_cast<void*>((address + kWorkspaceAlignment - 1) / kWorkspaceAlignment *
                                   kWorkspaceAlignment);
  }
  return outcome("execute", candidate.graph->execute_plan_at_index(library.handle.get(), pointers, count,
                                                                   room, candidate.index));
}

}  // namespace

// ---- Plans

class Plan::Impl {
 public:
  Impl(Library::State& library, Key key, Convolution carried)
      : library_(library), key_(std::move(key)), carried_(std::move(carried)) {}

  // Builds the plan of the table of choices, or else the first that builds.
  Outcome build() {
    auto graph = describe(key_.pass, carried_);
    if (auto bad = query(*graph, library_.handle.get(), carried_, key_.rules)) return bad;
    const std::int64_t count = graph->get_execution_plan_count();
    const auto& known = library_.choices.plan_of;
    if (const auto it = known.find(text()); it != known.end()) {
      for (std::int64_t i = 0; i < count; ++i) {
        if (choice_text(carried_, name_at(*graph, i)) != it->second) continue;
        if (graph->build_plan_at_index(i).is_bad()) break;
        chosen_ = ready(std::move(graph), i);
        tuned_ = true;
        return {};
      }
    }
    Outcome last = Failure{"create_execution_plans", "no plan is allowed by the rules"};
    for (std::int64_t i = 0; i < count; ++i) {
      last = outcome("build_plan", graph->build_plan_at_index(i));
      if (last) continue;
      chosen_ = ready(std::move(graph), i);
      tuned_ = !is_fused(carried_) && (key_.rules.deterministic || !key_.rules.tune);
      return {};
    }
    return last;
  }

  void run(const Addresses& addresses) {
    if (!tuned_ && !is_fused(carried_) && !is_captured(library_.backend.stream())) [[unlikely]]
      tune(addresses);
    execute_chosen(addresses);
  }

  // See Library::try_out; nullopt: the data could not tell.
  std::optional<bool> try_out(const Addresses& addresses, const Rival& rival) {
    const auto confirmed = [&] {
      execute_chosen(addresses);
      return rival.confirms([&](const Addresses& elsewhere) { execute_chosen(elsewhere); });
    };
    if (const auto right = confirmed(); !right.value_or(false)) return right;
    choose(addresses);
    if (const auto right = confirmed(); !right.value_or(false)) return right;
    const auto other = milliseconds(
        [&] {
          rival.run();
          return true;
        },
        {});
    tuned_ = milliseconds_ && (!other || *milliseconds_ < *other);
    return tuned_;
  }
  // Into the table of choices.
  void note(std::string_view choice) { library_.choices.plan_of[text()] = choice; }
  std::string choice() const { return choice_text(carried_, chosen_.name); }

  const Convolution& carried() const { return carried_; }
  const Candidate& chosen() const { return chosen_; }
  bool tuned() const { return tuned_; }
  // The plan to use from now on; nullptr: this one.
  std::unique_ptr<Impl>& successor() { return successor_; }

 private:
  static constexpr std::size_t kCandidates = 12;
  // Runs between two events, and how often that is measured; the shortest counts. A candidate that takes
  // kHopeless times as long as the best is measured once.
  static constexpr int kRuns = 3, kRounds = 3;
  static constexpr float kHopeless = 1.3f;
  // A candidate whose first run takes kFarBehind times as long has no second one; in less than kLongRun
  // milliseconds it may have been its code's way to the device.
  static constexpr float kFarBehind = 4.0f, kLongRun = 20.0f;
  // Of one problem: no candidate is begun later. To compile an engine for a shape takes tenths of a second,
  // and ResNet-50 has a hundred problems: all candidates took more than two minutes on an H200.
  static constexpr std::chrono::milliseconds kPatience{300};

  std::string text() const { return key_text(key_.pass, key_.problem, key_.rules); }

  static Candidate ready(std::unique_ptr<Graph> graph, std::int64_t index) {
    Candidate candidate{std::move(graph), index, {}, 0};
    candidate.name = name_at(*candidate.graph, index);
    candidate.workspace = candidate.graph->get_workspace_size_plan_at_index(index);
    return candidate;
  }

  void execute_chosen(const Addresses& addresses) {
    if (auto bad = execute(chosen_, library_, addresses))
      fail(key_.pass, carried_, key_.rules, fmt::format("{} of plan {}", bad->call, chosen_.name), bad->text);
  }

  // Of `work` once, which says whether it could be done; nullopt when it cannot be done here.
  template <class Work>
  std::optional<float> milliseconds(const Work& work, std::optional<float> to_beat) const try {
    const cudaStream_t stream = library_.backend.stream();
    Event start, end;
    start.record(stream);
    if (!work()) return {};
    end.record(stream);
    if (to_beat) {
      const float first = end.milliseconds_since(start);
      if (first > kLongRun && first > kFarBehind * *to_beat) return first;
    }
    float best = std::numeric_limits<float>::max();
    for (int round = 0; round < kRounds; ++round) {
      start.record(stream);
      for (int i = 0; i < kRuns; ++i) {
        if (!work()) return {};
      }
      end.record(stream);
      best = std::min(best, end.milliseconds_since(start) / kRuns);
      if (to_beat && best > kHopeless * *to_beat) break;
    }
    return best;
  } catch (const VendorError&) {  // such as no room for its workspace
    return {};
  }

  // Keeps the fastest of the first plans that build.
  void choose(const Addresses& addresses) {
    const auto time = [&](const Candidate& candidate) {
      return milliseconds([&] { return !execute(candidate, library_, addresses); }, milliseconds_);
    };
    milliseconds_ = time(chosen_);
    std::size_t tried = 1;
    const auto start = std::chrono::steady_clock::now();
    const auto patient = [&] { return std::chrono::steady_clock::now() - start < kPatience; };
    for (std::int64_t i = chosen_.index + 1; tried < kCandidates && patient(); ++i) {
      auto graph = describe(key_.pass, carried_);
      if (query(*graph, library_.handle.get(), carried_, key_.rules)) break;
      const std::int64_t count = graph->get_execution_plan_count();
      bool built = false;
      while (i < count && patient() && !(built = graph->build_plan_at_index(i).is_good())) ++i;
      if (!built) break;
      Candidate candidate = ready(std::move(graph), i);
      const auto found = time(candidate);
      ++tried;
      if (!found || (milliseconds_ && *milliseconds_ <= *found)) continue;
      milliseconds_ = found;
      std::swap(chosen_, candidate);
    }
  }

  void tune(const Addresses& addresses) {
    choose(addresses);
    tuned_ = true;
    if (carried_.result != carried_.dtype && find_successor(addresses)) return;
    if (milliseconds_) note(choice());
  }

  // Whether rounding to 16 bits is so much faster than writing f32 that the rules prefer it.
  bool find_successor(Addresses addresses) {
    Convolution narrow = carried_;
    narrow.result = narrow.dtype;
    narrow.bias = false;
    auto other = std::make_unique<Impl>(library_, key_, narrow);
    if (other->build()) return false;
    addresses[2] = nullptr;
    other->tune(addresses);  // its result fits where the f32 result goes
    if (!other->milliseconds_ ||
        (milliseconds_ && *milliseconds_ <= key_.rules.wide_cost * *other->milliseconds_))
      return false;
    successor_ = std::move(other);
    return true;
  }

  Library::State& library_;
  Key key_;
  Convolution carried_;
  Candidate chosen_;
  bool tuned_ = false;
  std::optional<float> milliseconds_;  // of one run of `chosen_`, when it was timed
  std::unique_ptr<Impl> successor_;
};

Plan::Plan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Plan::~Plan() = default;
const Convolution& Plan::carried() const { return impl_->carried(); }
const std::string& Plan::name() const { return impl_->chosen().name; }
bool Plan::tuned() const { return impl_->tuned(); }
std::size_t Plan::workspace_bytes() const { return static_cast<std::size_t>(impl_->chosen().workspace); }
void Plan::run(const Addresses& addresses) { impl_->run(addresses); }

// ---- Without a device

void validate(Pass pass, const Convolution& problem) {
  if (auto bad = outcome("validate", describe(pass, problem)->validate()))
    fail(pass, problem, {}, bad->call, bad->text);
}

std::vector<std::string> plans_on(std::string_view description, Pass pass, const Convolution& problem,
                                  const Rules& rules) {
  auto device = std::make_shared<fe::DeviceProperties>();
  const std::vector<std::uint8_t> bytes(description.begin(), description.end());
  if (auto bad = outcome("description of a device", device->deserialize(bytes)))
    fail(pass, problem, rules, bad->call, bad->text);
  auto graph = describe(pass, problem);
  graph->set_device_properties(device);
  if (auto bad = query(*graph, nullptr, problem, rules)) {
    if (bad->call == "create_execution_plans") return {};
    fail(pass, problem, rules, bad->call, bad->text);
  }
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < graph->get_execution_plan_count(); ++i) {
    if (graph->build_plan_at_index(i).is_good()) names.push_back(name_at(*graph, i));
  }
  return names;
}

// ---- The plans of a backend

Library::State::State(CudaBackend& owner) : backend(owner) {
  const RelaxedCapture relaxed;
  cudnnHandle_t created = nullptr;
  check(cudnnCreate(&created), "cudnnCreate");
  handle.reset(created);
  check(cudnnSetStream(created, backend.stream()), "cudnnSetStream");
  cudaDeviceProp properties{};
  tandem::cuda::check(cudaGetDeviceProperties(&properties, backend.device().index),
                      "cudaGetDeviceProperties");
  choices.made_by = fmt::format("cuDNN {} on {}, {} multiprocessors", cudnnGetVersion(),
                                static_cast<const char*>(properties.name), properties.multiProcessorCount);
}

std::string version() {
  const std::size_t version = cudnnGetVersion();  // 10000·major + 100·minor + patch
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Library::Library(CudaBackend& backend) : state_(std::make_unique<State>(backend)) {}
Library::~Library() = default;

namespace {

// A plan is tried out within the scope, however that ends.
class Trying {
 public:
  explicit Trying(Library::State& library) : library_(library) { library_.trying = true; }
  ~Trying() { library_.trying = false; }
  Trying(const Trying&) = delete;
  Trying& operator=(const Trying&) = delete;

 private:
  Library::State& library_;
};

// Waits for the kernels of plans, which may go then; not for those of a stream that is captured.
bool are_done(cudaStream_t stream) {
  if (is_captured(stream)) return false;
  tandem::cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return true;
}

}  // namespace

Plan* Library::State::keep(const Key& key, std::unique_ptr<Plan> plan) {
  constexpr std::size_t kCapacity = 1024;
  if (plans.size() >= kCapacity && !trying && are_done(backend.stream())) plans.clear();
  return plans.insert_or_assign(key, std::move(plan)).first->second.get();
}

Plan& Library::plan(Pass pass, const Convolution& problem) {
  State& library = *state_;
  const cudaStream_t stream = library.backend.stream();
  const Key key{pass, problem, library.backend.rules()};
  if (const auto it = library.plans.find(key); it != library.plans.end()) {
    if (auto& successor = it->second->impl_->successor(); successor && are_done(stream)) [[unlikely]]
      it->second = std::make_unique<Plan>(std::move(successor));
    return *it->second;
  }
  const RelaxedCapture relaxed;
  std::vector<Convolution> carried = alternatives(pass, problem, key.rules);
  const auto& known = library.choices.plan_of;
  if (const auto it = known.find(key_text(pass, problem, key.rules)); it != known.end()) {
    std::stable_partition(carried.begin(), carried.end(),
                          [&](const Convolution& p) { return it->second.starts_with(choice_text(p, {})); });
  }
  Failure last;
  for (const Convolution& p : carried) {
    auto impl = std::make_unique<Plan::Impl>(library, key, p);
    if (auto bad = impl->build()) {
      last = std::move(*bad);
      continue;
    }
    return *library.keep(key, std::make_unique<Plan>(std::move(impl)));
  }
  fail(pass, problem, key.rules, last.call, last.text);
}

Plan* Library::fused_plan(Pass pass, const Convolution& problem) {
  State& library = *state_;
  const Key key{pass, problem, library.backend.rules()};
  if (const auto it = library.plans.find(key); it != library.plans.end()) return it->second.get();
  const RelaxedCapture relaxed;
  const auto& known = library.choices.plan_of;
  const auto it = known.find(key_text(pass, problem, key.rules));
  auto impl = std::make_unique<Plan::Impl>(library, key, problem);
  if ((it != known.end() && it->second == kSeparately) || impl->build()) return library.keep(key, nullptr);
  return library.keep(key, std::make_unique<Plan>(std::move(impl)));
}

bool Library::try_out(Plan& plan, const Addresses& addresses, const Rival& rival) {
  std::optional<bool> better;
  const Trying trying(*state_);
  try {
    better = plan.impl_->try_out(addresses, rival);
    if (better) plan.impl_->note(*better ? plan.impl_->choice() : std::string(kSeparately));
  } catch (const VendorError&) {  // such as no room, which is no verdict for other runs
    better = false;
  }
  if (better == false) dismiss(plan);
  return better.value_or(false);
}

void Library::dismiss(Plan& plan) {
  for (auto& [key, kept] : state_->plans) {
    if (kept.get() == &plan && are_done(state_->backend.stream())) return kept.reset();
  }
}

const Choices& Library::choices() const { return state_->choices; }

bool Library::adopt(const Choices& choices) {
  Choices& own = state_->choices;
  if (choices.made_by != own.made_by) return false;
  for (const auto& [key, name] : choices.plan_of) own.plan_of.insert_or_assign(key, name);
  return true;
}

}  // namespace tandem::cuda::dnn
