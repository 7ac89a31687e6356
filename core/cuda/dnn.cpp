// cuDNN: graphs of convolutions, heuristic candidates, and plans.
//
// Each candidate plan gets a new graph of the frontend, so that candidates can be freed one by one and built
// by several threads, each with its own handle. Repeating the heuristic query takes 2 to 4 ms (cuDNN 9.19).
//
// cuDNN 9.19's engines on an H100, according to plans_on: precompiled engines if operands and result share
// one type; f32 results of 16-bit operands, and a bias on 16-bit results, only from runtime-compiled engines,
// with a pointwise operation after the convolution; no channels-last f64.
#include <cuda_runtime.h>
#include <cudnn_frontend.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "core/cuda/capture.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/dnn_engines.h"
#include "core/cuda/launch.h"
#include "core/error.h"

namespace tandem::cuda::dnn {

namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using Attributes = fe::graph::Tensor_attributes;
using Dims = std::vector<std::int64_t>;

// In the order of the addresses of Plan::run; the frontend passes addresses by ascending id.
enum Id : std::int64_t { kFirst = 1, kSecond, kAddend, kResult, kSum, kSumOfSquares };

void check(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  throw VendorError(
      "cudnn", fmt::format("{}: {}; the versions of the driver, the CUDA toolkit and cuDNN must match", call,
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
      throw InternalError("cudnn", fmt::format("convolutions do not support {}", name_of(dtype)));
  }
}

// cuDNN names axes as NCHW; the strides define channels-last.
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

Outcome outcome(std::string_view call, fe::error_t status) {
  if (status.is_good()) return {};
  return Failure{std::string(call), status.get_message()};
}

constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 30;  // bytes

// Queries the heuristics, with a handle or with a device description stored in the graph.
Outcome query(Graph& graph, cudnnHandle_t handle, const Convolution& problem, const Rules& rules) try {
  if (auto bad = outcome("validate", graph.validate())) return bad;
  if (auto bad = outcome("build_operation_graph",
                         handle ? graph.build_operation_graph(handle) : graph.build_operation_graph()))
    return bad;
  if (auto bad = outcome("create_execution_plans",
                         graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK})))
    return bad;
  using enum fe::NumericalNote_t;
  // 16-bit accumulation violates the precision rule, and the largest Winograd tiles lose several bits.
  std::vector<fe::NumericalNote_t> unwanted = {REDUCED_PRECISION_REDUCTION, WINOGRAD_TILE_13x13};
  if (rules.deterministic) unwanted.push_back(NONDETERMINISTIC);
  // cuDNN 9.19 does not mark TF32 engines as converting inputs, but tensor cores process f32 only as TF32.
  if (problem.dtype == DType::f32 && !rules.allow_tf32)
    unwanted.insert(unwanted.end(), {TENSOR_CORE, DOWN_CONVERT_INPUTS});
  graph.deselect_numeric_notes(unwanted).deselect_workspace_greater_than(kMostWorkspace);
  return {};
} catch (const fe::cudnnException& error) {  // descriptor builders throw, graphs return errors
  return Failure{"build_operation_graph", error.what()};
}

std::string name_at(const Graph& graph, std::int64_t index) {
  std::string name;
  return graph.get_plan_name_at_index(index, name).is_good() ? name : std::string();
}

// Whether the plan is compiled for the shape at build time.
bool is_compiled_at(const Graph& graph, std::int64_t index) {
  std::vector<fe::BehaviorNote_t> notes;
  return graph.get_behavior_notes_for_plan_at_index(index, notes).is_good() &&
         std::ranges::find(notes, fe::BehaviorNote_t::RUNTIME_COMPILATION) != notes.end();
}

// ---- Plans

using Handle = std::shared_ptr<cudnnContext>;

Handle new_handle() {
  const RelaxedCapture relaxed;
  cudnnHandle_t created = nullptr;
  check(cudnnCreate(&created), "cudnnCreate");
  return {created, cudnnDestroy};
}

class CudnnEngine final : public Engine {
 public:
  CudnnEngine(Handle handle, std::unique_ptr<Graph> graph, std::int64_t index)
      : handle_(std::move(handle)), graph_(std::move(graph)), index_(index) {
    name = name_at(*graph_, index);
    workspace = graph_->get_workspace_size_plan_at_index(index);
  }

  Outcome run(const Addresses& addresses, void* room) const override {
    void* pointers[std::tuple_size_v<Addresses>];
    int count = 0;
    for (const void* address : addresses) {
      if (address) pointers[count++] = const_cast<void*>(address);
    }
    return outcome("execute", graph_->execute_plan_at_index(handle_.get(), pointers, count, room, index_));
  }

 private:
  Handle handle_;
  std::unique_ptr<Graph> graph_;
  std::int64_t index_;
};

}  // namespace

struct Engines::State {
  explicit State(CudaBackend& owner) : backend(owner) {}

  CudaBackend& backend;
  std::mutex mutex;
  std::map<int, Handle>
      handles;  // by thread; handle 0 uses the backend's stream, the others only build plans

  Handle handle_of(int thread) {
    const std::lock_guard lock(mutex);
    Handle& handle = handles[thread];
    if (!handle) {
      handle = new_handle();
      if (thread == 0) check(cudnnSetStream(handle.get(), backend.stream()), "cudnnSetStream");
    }
    return handle;
  }
};

namespace {

class CudnnOffer final : public Offer {
 public:
  CudnnOffer(Engines::State& state, Pass pass, const Convolution& problem, const Rules& rules)
      : state_(state), pass_(pass), problem_(problem), rules_(rules) {}

  Outcome ask() {
    spare_ = describe(pass_, problem_);
    if (auto bad = query(*spare_, state_.handle_of(0).get(), problem_, rules_)) return bad;
    for (std::int64_t i = 0; i < spare_->get_execution_plan_count(); ++i)
      listed.push_back({name_at(*spare_, i), is_compiled_at(*spare_, i)});
    return {};
  }

  Outcome build(std::int64_t index, int thread, std::unique_ptr<Engine>& engine) override {
    tandem::cuda::check(cudaSetDevice(state_.backend.device().index), "cudaSetDevice");
    const RelaxedCapture relaxed;
    std::unique_ptr<Graph> graph = thread == 0 ? std::move(spare_) : nullptr;
    if (!graph) {
      graph = describe(pass_, problem_);
      if (auto bad = query(*graph, state_.handle_of(thread).get(), problem_, rules_)) return bad;
    }
    if (auto bad = outcome("build_plan", graph->build_plan_at_index(index))) {
      if (thread == 0) spare_ = std::move(graph);
      return bad;
    }
    engine = std::make_unique<CudnnEngine>(state_.handle_of(0), std::move(graph), index);
    return {};
  }

 private:
  Engines::State& state_;
  Pass pass_;
  Convolution problem_;
  Rules rules_;
  std::unique_ptr<Graph> spare_;  // of thread 0: queried, without a plan yet
};

}  // namespace

Engines::Engines(CudaBackend& backend) : state_(std::make_unique<State>(backend)) {}
Engines::~Engines() = default;
std::shared_ptr<cudnnContext> Engines::handle() { return state_->handle_of(0); }

Outcome Engines::ask(Pass pass, const Convolution& problem, const Rules& rules,
                     std::unique_ptr<Offer>& offer) {
  auto asked = std::make_unique<CudnnOffer>(*state_, pass, problem, rules);
  if (auto bad = asked->ask()) return bad;
  offer = std::move(asked);
  return {};
}

std::string version() {
  const std::size_t version = cudnnGetVersion();  // encoded as 10000·major + 100·minor + patch
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// ---- Queries without a device

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

}  // namespace tandem::cuda::dnn
