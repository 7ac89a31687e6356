#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "core/cuda/launch.h"
#include "tests/gpu/probe/cuda_probes.h"

namespace tandem::probe {

namespace {

using Clock = std::chrono::steady_clock;

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(status) + ": " +
                           cudaGetErrorString(status));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Stream {
  cudaStream_t handle = nullptr;
  Stream() { check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~Stream() { cudaStreamDestroy(handle); }
  void wait() const { check(cudaStreamSynchronize(handle), "cudaStreamSynchronize"); }
};

struct Event {
  cudaEvent_t handle = nullptr;
  Event() { check(cudaEventCreate(&handle), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(handle); }
};

template <class T>
struct DeviceArray {
  T* data = nullptr;
  std::size_t bytes;
  explicit DeviceArray(std::size_t count) : bytes(count * sizeof(T)) {
    check(cudaMalloc(reinterpret_cast<void**>(&data), bytes), "cudaMalloc");
    check(cudaMemset(data, 0, bytes), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~DeviceArray() { cudaFree(data); }
};

// What the stream is asked for as a graph; the status is that of its first failure.
struct Graph {
  cudaGraphExec_t executable = nullptr;
  cudaError_t status = cudaSuccess;

  Graph(const Stream& stream, const std::function<cudaError_t()>& work) {
    check(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    status = work();
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream.handle, &graph);
    if (status == cudaSuccess) status = ended;
    if (status == cudaSuccess) status = cudaGraphInstantiate(&executable, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
  }
  ~Graph() {
    if (executable) cudaGraphExecDestroy(executable);
  }
  void launch(const Stream& stream) const {
    check(cudaGraphLaunch(executable, stream.handle), "cudaGraphLaunch");
  }
};

// Median microseconds of what `work` asks the stream for.
double time_of(const Stream& stream, int repeats, const std::function<void()>& work) {
  Event first, last;
  work();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    check(cudaEventRecord(first.handle, stream.handle), "cudaEventRecord");
    work();
    check(cudaEventRecord(last.handle, stream.handle), "cudaEventRecord");
    stream.wait();
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, first.handle, last.handle), "cudaEventElapsedTime");
    times.push_back(1e3 * static_cast<double>(milliseconds));
  }
  return median(times);
}

// ---- pageable memory under capture

constexpr int kOld = 1, kNew = 2;

std::string value_name(int value) {
  return value == kOld   ? "the value at the capture"
         : value == kNew ? "the value at the replay"
                         : "neither value";
}

// What the copy is allowed to do, and what a replay moves once the host has another value.
Finding pageable(bool to_device) {
  Stream stream;
  DeviceArray<int> device(1);
  const auto host = std::make_unique<int>(kOld);  // pageable
  const auto copy = [&] {
    return to_device
               ? cudaMemcpyAsync(device.data, host.get(), sizeof(int), cudaMemcpyHostToDevice, stream.handle)
               : cudaMemcpyAsync(host.get(), device.data, sizeof(int), cudaMemcpyDeviceToHost, stream.handle);
  };
  const Graph graph(stream, copy);
  if (graph.status != cudaSuccess) return {{}, std::string("refused: ") + cudaGetErrorName(graph.status)};
  if (to_device) {
    *host = kNew;
    graph.launch(stream);
    stream.wait();
    int seen = 0;
    check(cudaMemcpy(&seen, device.data, sizeof seen, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return {{}, "recorded; the device gets " + value_name(seen)};
  }
  const int untouched = *host;
  const int value = kNew;
  check(cudaMemcpy(device.data, &value, sizeof value, cudaMemcpyHostToDevice), "cudaMemcpy");
  graph.launch(stream);
  stream.wait();
  return {{},
          std::string("recorded; the capture ") +
              (untouched == kOld ? "leaves the host's memory" : "writes the host's memory") +
              ", a replay brings " + value_name(*host)};
}

// ---- nodes of a graph, one after the other

__device__ std::uint64_t nanoseconds() {
#ifdef TANDEM_CUDA_EMULATED
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
#else
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#endif
}

__global__ void empty_kernel() { cuda::await_earlier_work(); }

// Begin and end of node `node`.
__global__ void stamp_kernel(std::uint64_t* stamps, int node) {
  cuda::await_earlier_work();
  stamps[2 * node] = nanoseconds();
  stamps[2 * node + 1] = nanoseconds();
}

// A launch whose edge to the one before is an ordinary or a programmatic one.
template <class... Parameters>
cudaError_t put(const Stream& stream, bool programmatic, void (*kernel)(Parameters...),
                Parameters... values) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  const cudaLaunchConfig_t config{dim3(1), dim3(32), 0, stream.handle, &attribute, programmatic ? 1U : 0U};
  return cudaLaunchKernelEx(&config, kernel, values...);
}

cudaError_t put_chain(const Stream& stream, int nodes, bool programmatic) {
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < nodes && status == cudaSuccess; ++i) status = put(stream, programmatic, empty_kernel);
  return status;
}

int nodes_of(bool tiny) { return tiny ? 12 : 600; }
int repeats_of(bool tiny) { return tiny ? 2 : 20; }

Finding refused(const Graph& graph) {
  return {{}, std::string("refused: ") + cudaGetErrorName(graph.status)};
}

// From the difference of a long and a short chain, which is free of what a launch of a graph costs.
Finding node_time(bool tiny, bool programmatic) {
  Stream stream;
  const int nodes = nodes_of(tiny), few = nodes / 6;
  const Graph whole(stream, [&] { return put_chain(stream, nodes, programmatic); });
  if (whole.status != cudaSuccess) return refused(whole);
  const Graph part(stream, [&] { return put_chain(stream, few, programmatic); });
  if (part.status != cudaSuccess) return refused(part);
  const double of_whole = time_of(stream, repeats_of(tiny), [&] { whole.launch(stream); });
  const double of_part = time_of(stream, repeats_of(tiny), [&] { part.launch(stream); });
  return {{{"us", (of_whole - of_part) / (nodes - few)}}, {}};
}

Finding node_gap(bool tiny, bool programmatic) {
  Stream stream;
  const int nodes = nodes_of(tiny);
  const DeviceArray<std::uint64_t> stamps(2 * static_cast<std::size_t>(nodes));
  const Graph graph(stream, [&] {
    cudaError_t status = cudaSuccess;
    for (int i = 0; i < nodes && status == cudaSuccess; ++i)
      status = put(stream, programmatic, stamp_kernel, stamps.data, i);
    return status;
  });
  if (graph.status != cudaSuccess) return refused(graph);
  for (int i = 0; i < repeats_of(tiny); ++i) graph.launch(stream);
  stream.wait();
  std::vector<std::uint64_t> seen(2 * static_cast<std::size_t>(nodes));
  check(cudaMemcpy(seen.data(), stamps.data, stamps.bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::vector<double> gaps;
  for (std::size_t i = 2; i < seen.size(); i += 2)
    gaps.push_back(1e-3 * static_cast<double>(seen[i] - seen[i - 1]));
  return {{{"us", median(gaps)}}, {}};
}

Finding graph_launch(bool tiny) {
  Stream stream;
  const Graph graph(stream, [&] { return put_chain(stream, nodes_of(tiny), false); });
  if (graph.status != cudaSuccess) return refused(graph);
  graph.launch(stream);
  stream.wait();
  std::vector<double> host, whole;
  for (int i = 0; i < repeats_of(tiny); ++i) {
    const auto start = Clock::now();
    graph.launch(stream);
    host.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    stream.wait();
    whole.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return {{{"us", median(host)}, {"until_done_us", median(whole)}}, {}};
}

// ---- a barrier of all blocks

// `arrived` counts the blocks that have come, over all barriers.
__global__ void barrier_kernel(unsigned* arrived, int barriers) {
  for (int i = 1; i <= barriers; ++i) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(arrived, 1U);
      const unsigned all = static_cast<unsigned>(i) * gridDim.x;
      while (*static_cast<volatile unsigned*>(arrived) < all) {
      }
      __threadfence();
    }
    __syncthreads();
  }
}

// An emulator executes one block after the other.
cudaError_t put_barriers(const Stream& stream, unsigned* arrived, int barriers, int blocks) {
#ifdef TANDEM_CUDA_EMULATED
  static_cast<void>(blocks);
  const cudaLaunchConfig_t config{dim3(1), dim3(64), 0, stream.handle, nullptr, 0};
  return cudaLaunchKernelEx(&config, barrier_kernel, arrived, barriers);
#else
  void* arguments[] = {&arrived, &barriers, nullptr};
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(barrier_kernel),
                                     dim3(static_cast<unsigned>(blocks)), dim3(256), arguments, 0,
                                     stream.handle);
#endif
}

Finding grid_barrier(bool tiny) {
  Stream stream;
  DeviceArray<unsigned> arrived(1);
  int device = 0, processors = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  const int barriers = tiny ? 4 : 1000;
  const auto seconds = [&](int count) {
    return time_of(stream, repeats_of(tiny), [&] {
      check(cudaMemsetAsync(arrived.data, 0, arrived.bytes, stream.handle), "cudaMemsetAsync");
      check(put_barriers(stream, arrived.data, count, processors), "cudaLaunchCooperativeKernel");
    });
  };
  return {{{"us", (seconds(barriers) - seconds(0)) / barriers}, {"blocks", static_cast<double>(processors)}},
          {}};
}

}  // namespace

const std::vector<CudaProbe>& cuda_probes() {
  static const std::vector<CudaProbe> probes = {
      {"cuda copy from pageable memory under capture", [](bool) { return pageable(true); }},
      {"cuda copy to pageable memory under capture", [](bool) { return pageable(false); }},
      {"cuda node", [](bool tiny) { return node_time(tiny, false); }},
      {"cuda node, programmatic edge", [](bool tiny) { return node_time(tiny, true); }},
      {"cuda gap between nodes", [](bool tiny) { return node_gap(tiny, false); }},
      {"cuda gap between nodes, programmatic edge", [](bool tiny) { return node_gap(tiny, true); }},
      {"cuda launch of a graph of 600 nodes", [](bool tiny) { return graph_launch(tiny); }},
      {"cuda barrier of a grid", [](bool tiny) { return grid_barrier(tiny); }},
  };
  return probes;
}

}  // namespace tandem::probe
