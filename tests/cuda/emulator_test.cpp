// The emulator: execution, its order, and errors.
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <string>
#include <vector>

#include "tests/cuda/emulator/control.h"

namespace {

template <class... P, class... A>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                   A... arguments) {
  const cudaLaunchConfig_t config{grid, block, shared_bytes, stream, nullptr, 0};
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

// A kernel that may start before the kernel before it has ended.
template <class... P, class... A>
cudaError_t launch_early(void (*kernel)(P...), dim3 grid, dim3 block, A... arguments) {
  cudaLaunchAttribute early{cudaLaunchAttributeProgrammaticStreamSerialization, {1}};
  const cudaLaunchConfig_t config{grid, block, 0, nullptr, &early, 1};
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

// Page-locked memory, which host and kernels see.
struct Pinned {
  explicit Pinned(int count) : count(count) {
    REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&data), static_cast<std::size_t>(count) * sizeof(int)) ==
            cudaSuccess);
    for (int i = 0; i < count; ++i) data[i] = 0;
  }
  ~Pinned() { cudaFreeHost(data); }
  std::vector<int> values() const { return {data, data + count}; }
  int* data = nullptr;
  int count;
};

struct Device {
  explicit Device(std::size_t bytes) { REQUIRE(cudaMalloc(&data, bytes) == cudaSuccess); }
  ~Device() { cudaFree(data); }
  void* data = nullptr;
};

struct StreamOwner {
  StreamOwner() { REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess); }
  ~StreamOwner() { cudaStreamDestroy(stream); }
  cudaStream_t stream = nullptr;
};

struct EventOwner {
  EventOwner() { REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess); }
  ~EventOwner() { cudaEventDestroy(event); }
  cudaEvent_t event = nullptr;
};

// What a process writes to stderr that runs `body`, and how it ends.
struct End {
  int signal = 0;       // 0: none
  bool failed = false;  // by a signal, or as a sanitizer ends a process
  std::string text;
};
template <class Body>
End end_of(const Body& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : {SIGABRT, SIGSEGV}) std::signal(number, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  End end;
  char buffer[512];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;)
    end.text.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  end.failed = status != 0;
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  return end;
}

void add_kernel(int* target, int value) { *target += value; }
void double_kernel(int* target) { *target *= 2; }

void reverse_kernel(int* values) {
  auto& room = cuda_emulator::shared<int[96]>([] {});
  room[threadIdx.x] = static_cast<int>(threadIdx.x + 100 * blockIdx.x);
  __syncthreads();
  values[blockIdx.x * blockDim.x + threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
}

void no_barrier_kernel(int* values) {
  auto& room = cuda_emulator::shared<int[64]>([] {});
  room[threadIdx.x] = static_cast<int>(threadIdx.x);
  values[threadIdx.x] = room[63 - threadIdx.x];
}

void lanes_kernel(int* values) {
  const int own = static_cast<int>(threadIdx.x);
  int sum = own;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  const int before = __shfl_up_sync(0xffffffffu, own, 1);
  const unsigned odd = __ballot_sync(0xffffffffu, own % 2);
  const int count = __syncthreads_count(own < 40);
  values[own] = sum + 1000 * before + (odd == 0xaaaaaaaau ? 1000000 : 0) + 10000000 * (count == 40);
}

void divergent_kernel() {
  if (threadIdx.x < 7) __syncthreads();
}
void other_barrier_kernel() {
  if (threadIdx.x < 7) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
void missing_lane_kernel() {
  if (threadIdx.x != 3) __shfl_xor_sync(0xffffffffu, 1, 1);
  __syncthreads();
}
void waiting_kernel(int* target, int value) {
  cudaGridDependencySynchronize();
  if (threadIdx.x == 0 && blockIdx.x == 0) *target = value;
}
void hasty_kernel(int* target, int value) {
  if (threadIdx.x == 0) *target = value;
  cudaGridDependencySynchronize();
}
void leaving_kernel() {
  if (threadIdx.x < 3) return;
  cudaGridDependencySynchronize();
}
void overrun_kernel(int offset) {
  auto& room = cuda_emulator::shared<int[4]>([] {});
  int* const begin = room;
  begin[offset] = 1;
}

}  // namespace

TEST_CASE("threads of a block meet at barriers in every order", "[emulator]") {
  const Pinned values(2 * 96);
  std::vector<int> expected;
  for (int block = 0; block < 2; ++block) {
    for (int i = 95; i >= 0; --i) expected.push_back(100 * block + i);
  }
  for (const int order : {0, 1, 2}) {
    cuda_emulator::set_execution_order(order);
    REQUIRE(launch(reverse_kernel, 2, 96, 0, nullptr, values.data) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(values.values() == expected);
  }
  cuda_emulator::set_execution_order(0);
}

TEST_CASE("a barrier that is missing shows", "[emulator]") {
  const Pinned values(64);
  launch(no_barrier_kernel, 1, 64, 0, nullptr, values.data);
  cudaDeviceSynchronize();
  CHECK(values.data[0] == -1);  // what shared memory holds at first
  CHECK(values.data[63] == 0);
}

TEST_CASE("lanes exchange values", "[emulator]") {
  const Pinned values(64);
  launch(lanes_kernel, 1, 64, 0, nullptr, values.data);
  cudaDeviceSynchronize();
  for (int i = 0; i < 64; ++i) {
    const int sum = i < 32 ? 31 * 16 : 31 * 16 + 32 * 32, before = i % 32 == 0 ? i : i - 1;
    CHECK(values.data[i] == sum + 1000 * before + 1000000 + 10000000);
  }
}

TEST_CASE("misuse of barriers and lanes ends the process", "[emulator]") {
  const auto run = [](void (*kernel)()) {
    return end_of([=] {
      launch(kernel, 1, 32, 0, nullptr);
      cudaDeviceSynchronize();
    });
  };
  const End left = run(divergent_kernel), other = run(other_barrier_kernel),
            missing = run(missing_lane_kernel);
  CHECK(left.signal == SIGABRT);
  CHECK(left.text.find("left the kernel while others wait") != std::string::npos);
  CHECK(other.signal == SIGABRT);
  CHECK(other.text.find("different barriers") != std::string::npos);
  CHECK(missing.signal == SIGABRT);
  CHECK(missing.text.find("deadlock: all threads wait") != std::string::npos);
}

TEST_CASE("a write beside a shared variable ends the process", "[emulator]") {
  for (const int offset : {-1, 4}) {
    const End end = end_of([=] {
      launch(overrun_kernel, 1, 1, 0, nullptr, offset);
      cudaDeviceSynchronize();
    });
    CHECK(end.failed);
  }
}

TEST_CASE("the host cannot touch device memory, nor a kernel what lies behind it", "[emulator]") {
  const Device memory(8192);
  CHECK(end_of([&] { *static_cast<volatile int*>(memory.data) = 1; }).signal == SIGSEGV);
  auto* const behind = reinterpret_cast<int*>(static_cast<char*>(memory.data) + 8192);
  CHECK(end_of([&] {
          launch(add_kernel, 1, 1, 0, nullptr, behind, 1);
          cudaDeviceSynchronize();
        }).signal == SIGSEGV);
}

TEST_CASE("memory is poisoned until it is written", "[emulator]") {
  const Device memory(64);
  float value = 0.0f;
  REQUIRE(cudaMemcpy(&value, memory.data, sizeof(value), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(std::isnan(value));
}

TEST_CASE("work waits until something waits for it", "[emulator]") {
  const StreamOwner a, b;
  const EventOwner event;
  const Pinned value(1);
  launch(add_kernel, 1, 1, 0, a.stream, value.data, 3);
  cudaEventRecord(event.event, a.stream);
  launch(double_kernel, 1, 1, 0, a.stream, value.data);
  CHECK(value.data[0] == 0);
  SECTION("the stream") {
    cudaStreamSynchronize(a.stream);
    CHECK(value.data[0] == 6);
  }
  SECTION("an event") {
    cudaEventSynchronize(event.event);
    CHECK(value.data[0] == 3);
  }
  SECTION("another stream that waits for an event") {
    cudaStreamWaitEvent(b.stream, event.event);
    launch(add_kernel, 1, 1, 0, b.stream, value.data, 100);
    cudaStreamSynchronize(b.stream);
    CHECK(value.data[0] == 103);
  }
  SECTION("who asks for an event twice") {
    CHECK(cudaEventQuery(event.event) == cudaErrorNotReady);
    CHECK(cudaEventQuery(event.event) == cudaSuccess);
    CHECK(value.data[0] == 3);
  }
  SECTION("not a synchronous copy on the legacy stream") {
    int copy = -1;
    cudaMemcpy(&copy, value.data, sizeof(copy), cudaMemcpyDefault);
    CHECK(copy == 0);
  }
}

TEST_CASE("kernels that start early wait before they touch memory", "[emulator]") {
  const Device memory(64);
  auto* const target = static_cast<int*>(memory.data);
  const std::uint64_t before = cuda_emulator::counts().early_launches;
  REQUIRE(launch_early(waiting_kernel, 2, 40, target, 7) == cudaSuccess);
  REQUIRE(launch(waiting_kernel, 1, 40, 0, nullptr, target + 1, 8) == cudaSuccess);
  CHECK(cuda_emulator::counts().early_launches == before + 1);
  int values[2] = {};
  REQUIRE(cudaMemcpy(values, target, sizeof(values), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(values[0] == 7);
  CHECK(values[1] == 8);
  const auto run = [](auto kernel, auto... arguments) {
    return end_of([=] {
      launch_early(kernel, 1, 40, arguments...);
      cudaDeviceSynchronize();
    });
  };
  CHECK(run(hasty_kernel, target, 7).signal == SIGSEGV);
  const End left = run(leaving_kernel);
  CHECK(left.signal == SIGABRT);
  CHECK(left.text.find("37 of 40 threads waited") != std::string::npos);
}

TEST_CASE("a captured stream records and a graph replays", "[emulator]") {
  const StreamOwner main, side;
  const EventOwner fork, join;
  const Pinned value(2);
  for (const int order : {0, 1, 2}) {
    cuda_emulator::set_execution_order(order);
    value.data[0] = value.data[1] = 0;
    REQUIRE(cudaStreamBeginCapture(main.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    launch(add_kernel, 1, 1, 0, main.stream, value.data, 1);
    cudaEventRecord(fork.event, main.stream);
    REQUIRE(cudaStreamWaitEvent(side.stream, fork.event) == cudaSuccess);
    launch(add_kernel, 1, 1, 0, side.stream, value.data + 1, 5);
    cudaEventRecord(join.event, side.stream);
    cudaStreamCaptureStatus status{};
    cudaStreamIsCapturing(side.stream, &status);
    CHECK(status == cudaStreamCaptureStatusActive);
    REQUIRE(cudaStreamWaitEvent(main.stream, join.event) == cudaSuccess);
    launch(double_kernel, 1, 1, 0, main.stream, value.data + 1);
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(main.stream, &graph) == cudaSuccess);
    CHECK(value.values() == std::vector<int>{0, 0});
    cudaGraphExec_t executable = nullptr;
    REQUIRE(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
    cudaGraphDestroy(graph);
    cudaGraphLaunch(executable, main.stream);
    cudaGraphLaunch(executable, main.stream);
    cudaGraphExecDestroy(executable);
    CHECK(value.values() == std::vector<int>{0, 0});
    cudaStreamSynchronize(main.stream);
    CHECK(value.values() == std::vector<int>{2, 30});
  }
  cuda_emulator::set_execution_order(0);
}

TEST_CASE("forbidden operations invalidate a capture", "[emulator]") {
  const StreamOwner main, side;
  const EventOwner event, before;
  const Pinned value(1);
  cudaEventRecord(before.event, side.stream);
  cudaGraph_t graph = nullptr;
  const auto begin = [&](cudaStreamCaptureMode mode) {
    REQUIRE(cudaStreamBeginCapture(main.stream, mode) == cudaSuccess);
    launch(add_kernel, 1, 1, 0, main.stream, value.data, 1);
  };
  const auto is_invalid = [&] {
    return cudaStreamEndCapture(main.stream, &graph) == cudaErrorStreamCaptureInvalidated;
  };

  begin(cudaStreamCaptureModeRelaxed);
  CHECK(cudaStreamSynchronize(main.stream) == cudaErrorStreamCaptureUnsupported);
  CHECK(launch(add_kernel, 1, 1, 0, main.stream, value.data, 1) == cudaErrorStreamCaptureInvalidated);
  CHECK(is_invalid());

  void* memory = nullptr;
  begin(cudaStreamCaptureModeGlobal);
  CHECK(cudaMalloc(&memory, 64) == cudaErrorStreamCaptureUnsupported);
  CHECK(is_invalid());

  begin(cudaStreamCaptureModeThreadLocal);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  CHECK(cudaMalloc(&memory, 64) == cudaSuccess);
  cudaThreadExchangeStreamCaptureMode(&mode);
  CHECK(cudaStreamEndCapture(main.stream, &graph) == cudaSuccess);
  cudaGraphDestroy(graph);

  begin(cudaStreamCaptureModeRelaxed);
  cudaEventRecord(event.event, main.stream);
  CHECK(cudaEventQuery(event.event) == cudaErrorCapturedEvent);
  CHECK(is_invalid());

  begin(cudaStreamCaptureModeRelaxed);
  CHECK(cudaStreamWaitEvent(main.stream, before.event) == cudaErrorStreamCaptureIsolation);
  CHECK(is_invalid());

  begin(cudaStreamCaptureModeRelaxed);
  cudaEventRecord(event.event, main.stream);
  cudaStreamWaitEvent(side.stream, event.event);
  launch(add_kernel, 1, 1, 0, side.stream, value.data, 1);
  CHECK(cudaStreamEndCapture(main.stream, &graph) == cudaErrorStreamCaptureUnjoined);
  CHECK(value.data[0] == 0);
  cudaFree(memory);
}

// As CUDA does, which says nothing. At a replay the host's memory may be gone.
TEST_CASE("a captured copy of pageable memory succeeds and leaves nothing", "[emulator]") {
  const StreamOwner stream;
  const Device memory(2 * sizeof(float));
  auto* const device = static_cast<float*>(memory.data);
  float host[2] = {1.0f, 2.0f};
  REQUIRE(cudaMemcpy(device, host, sizeof(host), cudaMemcpyHostToDevice) == cudaSuccess);
  const auto nodes = cuda_emulator::counts().graph_nodes;
  REQUIRE(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaMemcpyAsync(host, device, sizeof(float), cudaMemcpyDeviceToHost, stream.stream) == cudaSuccess);
  CHECK(std::isnan(host[0]));
  CHECK(cudaMemcpyAsync(device, host + 1, sizeof(float), cudaMemcpyHostToDevice, stream.stream) ==
        cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaStreamEndCapture(stream.stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
  CHECK(cuda_emulator::counts().graph_nodes == nodes + 2);
  cudaGraphDestroy(graph);
  host[0] = 7.0f;
  cudaGraphLaunch(executable, stream.stream);
  cudaStreamSynchronize(stream.stream);
  cudaGraphExecDestroy(executable);
  CHECK(host[0] == 7.0f);
  REQUIRE(cudaMemcpy(host, device, sizeof(host), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(std::isnan(host[0]));
  CHECK(host[1] == 2.0f);
}

TEST_CASE("memory runs out where a test says so", "[emulator]") {
  void* memory = nullptr;
  cuda_emulator::fail_call("cudaMalloc", 2);
  CHECK(cudaMalloc(&memory, 64) == cudaSuccess);
  cudaFree(memory);
  CHECK(cudaMalloc(&memory, 64) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  cuda_emulator::set_device_memory(1 << 20);
  CHECK(cudaMalloc(&memory, 2 << 20) == cudaErrorMemoryAllocation);
  cuda_emulator::set_device_memory(std::size_t{8} << 30);
  const auto before = cuda_emulator::counts();
  cudaDeviceSynchronize();
  CHECK(cuda_emulator::counts().host_waits == before.host_waits + 1);
}
