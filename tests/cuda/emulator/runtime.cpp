// The runtime API: devices, errors, memory, streams, events and launches.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/cuda/emulator/block.h"
#include "tests/cuda/emulator/call.h"
#include "tests/cuda/emulator/memory.h"
#include "tests/cuda/emulator/stream.h"

using cuda_emulator::Call;
using cuda_emulator::counters;
using cuda_emulator::enqueue;
using cuda_emulator::Event;
using cuda_emulator::find;
using cuda_emulator::Residence;
using cuda_emulator::residence_of;
using cuda_emulator::Stream;

namespace {

// Synchronises with the whole device.
cudaError_t wait_for_device() {
  for (Stream* stream : cuda_emulator::streams()) {
    if (const cudaError_t error = cuda_emulator::check_not_captured(*stream)) return error;
  }
  ++counters().host_waits;
  cuda_emulator::run_all();
  return cudaSuccess;
}

void wait_for(Stream& stream) {
  ++counters().host_waits;
  cuda_emulator::run(stream);
}

// Runs the legacy stream and all streams that it waits for.
void run_blocking() {
  for (Stream* stream : cuda_emulator::streams()) {
    if (stream->blocking) cuda_emulator::run(*stream);
  }
}

// Devices share one memory and one set of streams; a process uses one device.
int device_count() {
  static const int count = [] {
    const char* text = std::getenv("TANDEM_EMULATOR_DEVICES");
    return text ? std::max(1, std::atoi(text)) : 1;
  }();
  return count;
}

thread_local int device_of_thread = 0;

bool is_pageable(const void* address) { return residence_of(address) == Residence::pageable; }

bool fits(const void* address, std::size_t bytes, bool device) {
  return cuda_emulator::is_valid_range(address, bytes) &&
         (residence_of(address) == Residence::device) == device;
}

// Whether the addresses match `kind`.
bool is_valid_copy(const void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault)
    return cuda_emulator::is_valid_range(target, bytes) && cuda_emulator::is_valid_range(source, bytes);
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return fits(target, bytes, to_device) && fits(source, bytes, from_device);
}

// A copy to or from pageable memory in a graph. CUDA silently records a node that copies at each replay from
// and to memory that may have been reused by then. The emulator writes poison instead.
cudaError_t record_pageable_copy(cudaStream_t stream, void* target, std::size_t bytes) {
  const bool to_host = is_pageable(target);
  const cudaError_t error = enqueue(stream, [=] {
    if (!to_host) std::memset(target, cuda_emulator::kPoison, bytes);
  });
  if (error == cudaSuccess && to_host) std::memset(target, cuda_emulator::kPoison, bytes);
  return error;
}

void copy(void* target, const void* source, std::size_t bytes) {
  const cuda_emulator::DeviceAccess access;
  std::memmove(target, source, bytes);
}

}  // namespace

// ---- Devices and errors

cudaError_t cudaGetLastError() { return std::exchange(cuda_emulator::last_error(), cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return cuda_emulator::last_error(); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define CUDA_EMULATOR_NAME(name) \
  case name:                     \
    return #name;
    CUDA_EMULATOR_NAME(cudaSuccess)
    CUDA_EMULATOR_NAME(cudaErrorInvalidValue)
    CUDA_EMULATOR_NAME(cudaErrorMemoryAllocation)
    CUDA_EMULATOR_NAME(cudaErrorInvalidConfiguration)
    CUDA_EMULATOR_NAME(cudaErrorNoDevice)
    CUDA_EMULATOR_NAME(cudaErrorInvalidDevice)
    CUDA_EMULATOR_NAME(cudaErrorInvalidResourceHandle)
    CUDA_EMULATOR_NAME(cudaErrorNotReady)
    CUDA_EMULATOR_NAME(cudaErrorIllegalAddress)
    CUDA_EMULATOR_NAME(cudaErrorNotSupported)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureUnsupported)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureInvalidated)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureMerge)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureUnmatched)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureUnjoined)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureIsolation)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureImplicit)
    CUDA_EMULATOR_NAME(cudaErrorCapturedEvent)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureWrongThread)
    CUDA_EMULATOR_NAME(cudaErrorUnknown)
#undef CUDA_EMULATOR_NAME
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : cudaGetErrorName(error);
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const Call call;
  if (device < 0 || device >= device_count()) return call.result(cudaErrorInvalidDevice);
  device_of_thread = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Call call;
  if (device < 0 || device >= device_count()) return call.result(cudaErrorInvalidDevice);
  *properties = {};
  properties->pciBusID = device;
  std::strcpy(properties->name, "CUDA emulator");
  properties->totalGlobalMem = cuda_emulator::device_memory_bytes();
  properties->sharedMemPerBlock = properties->sharedMemPerBlockOptin = 48 << 10;
  properties->regsPerBlock = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->major = 9;
  properties->multiProcessorCount = 2;
  properties->l2CacheSize = static_cast<int>(cuda_emulator::kSecondCache);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Call call;
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
  }
  return call.result(cudaErrorInvalidValue);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const Call call;
  return call.result(wait_for_device());
}

// ---- Memory

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  const Call call;
  if (const cudaError_t error = cuda_emulator::unsafe_call()) return call.result(error);
  ++counters().allocations;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (!cuda_emulator::is_to_fail("cudaMalloc")) *address = cuda_emulator::allocate_device(bytes);
  return call.result(*address != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* address) {
  const Call call;
  if (const cudaError_t error = cuda_emulator::unsafe_call()) return call.result(error);
  if (address == nullptr) return cudaSuccess;
  // Synchronises with the device, except captured streams.
  ++counters().host_waits;
  cuda_emulator::run_all();
  return call.result(cuda_emulator::free_device(address) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  const Call call;
  if (const cudaError_t error = cuda_emulator::unsafe_call()) return call.result(error);
  ++counters().host_allocations;
  *address = bytes > 0 ? cuda_emulator::allocate_pinned(bytes) : nullptr;
  return call.result(*address != nullptr || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaMallocHost(void** address, std::size_t bytes, unsigned flags) {
  return cudaHostAlloc(address, bytes, flags);
}
cudaError_t cudaFreeHost(void* address) {
  const Call call;
  if (const cudaError_t error = cuda_emulator::unsafe_call()) return call.result(error);
  if (address == nullptr) return cudaSuccess;
  ++counters().host_waits;
  cuda_emulator::run_all();
  return call.result(cuda_emulator::free_pinned(address) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  const Call call;
  *device = host;
  return call.result(residence_of(host) == Residence::pinned ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Call call;
  *total = cuda_emulator::device_memory_bytes();
  *free = *total - std::min(*total, cuda_emulator::allocated_device_bytes());
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const Call call;
  auto* const pointer = const_cast<void*>(address);
  switch (residence_of(address)) {
    case Residence::pageable:
      *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, pointer};
      break;
    case Residence::pinned:
      *attributes = {cudaMemoryTypeHost, 0, pointer, pointer};
      break;
    case Residence::device:
      *attributes = {cudaMemoryTypeDevice, 0, pointer, nullptr};
      break;
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  const Call call;
  Stream* stream = find(handle);
  if (stream == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (cuda_emulator::is_to_fail("cudaMemcpyAsync")) return call.result(cudaErrorUnknown);
  if (bytes == 0) return cudaSuccess;
  if (!is_valid_copy(target, source, bytes, kind)) return call.result(cudaErrorInvalidValue);
  const bool from_pageable = is_pageable(source), to_pageable = is_pageable(target);
  if (stream->capture && (from_pageable || to_pageable))
    return call.result(record_pageable_copy(handle, target, bytes));
  if (to_pageable) {
    // Synchronous.
    if (residence_of(source) == Residence::device) counters().bytes_to_host += bytes;
    if (const cudaError_t error = enqueue(handle, [=] { std::memmove(target, source, bytes); }))
      return call.result(error);
    wait_for(*stream);
    return cudaSuccess;
  }
  if (from_pageable) {
    // Staged in memory of the runtime, which may block on a GPU.
    ++counters().host_waits;
    const auto* const begin = static_cast<const char*>(source);
    return call.result(enqueue(handle, [target, staged = std::vector<char>(begin, begin + bytes)] {
      std::memcpy(target, staged.data(), staged.size());
    }));
  }
  return call.result(enqueue(handle, [=] { std::memmove(target, source, bytes); }));
}
cudaError_t cudaMemcpy(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
  const Call call;
  if (const cudaError_t error = cuda_emulator::unsafe_call()) return call.result(error);
  if (const cudaError_t error = cuda_emulator::check_legacy()) return call.result(error);
  if (bytes == 0) return cudaSuccess;
  if (!is_valid_copy(target, source, bytes, kind)) return call.result(cudaErrorInvalidValue);
  ++counters().host_waits;
  run_blocking();
  copy(target, source, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* target, int value, std::size_t bytes, cudaStream_t stream) {
  const Call call;
  if (bytes == 0) return cudaSuccess;
  if (is_pageable(target) || !cuda_emulator::is_valid_range(target, bytes))
    return call.result(cudaErrorInvalidValue);
  return call.result(enqueue(stream, [=] {
    std::memset(target, value, bytes);
    cuda_emulator::chill_cache(bytes);
  }));
}
cudaError_t cudaMemset(void* target, int value, std::size_t bytes) {
  return cudaMemsetAsync(target, value, bytes, nullptr);
}

// ---- Streams

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Call call;
  *stream = cuda_emulator::add_stream(flags != cudaStreamNonBlocking);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const Call call;
  Stream* stream = find(handle);
  if (handle == nullptr || stream == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (stream->capture) cuda_emulator::invalidate(*stream->capture);
  cuda_emulator::remove_stream(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const Call call;
  Stream* stream = find(handle);
  if (stream == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = cuda_emulator::check_not_captured(*stream)) return call.result(error);
  if (handle == nullptr) {
    if (const cudaError_t error = cuda_emulator::check_legacy()) return call.result(error);
    run_blocking();
  }
  wait_for(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Call call;
  Stream* stream = find(handle);
  if (stream == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = cuda_emulator::check_not_captured(*stream)) return call.result(error);
  if (stream->queue.empty()) return cudaSuccess;
  cuda_emulator::run(*stream, nullptr, false);
  return cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  const Call call;
  Stream* stream = find(handle);
  if (stream == nullptr || event == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (event->capture) {
    const auto& capture = event->capture;
    if (!capture->valid) return call.result(cudaErrorStreamCaptureInvalidated);
    if (find(capture->origin) == nullptr || capture->origin->capture != capture)
      return call.result(cudaErrorCapturedEvent);
    if (stream->capture && stream->capture != capture) {
      cuda_emulator::invalidate(*capture);
      cuda_emulator::invalidate(*stream->capture);
      return call.result(cudaErrorStreamCaptureMerge);
    }
    if (!stream->capture) {
      stream->capture = capture;
      stream->tail.clear();
      capture->streams.push_back(stream);
    }
    for (const std::size_t node : event->tail) {
      if (std::find(stream->tail.begin(), stream->tail.end(), node) == stream->tail.end())
        stream->tail.push_back(node);
    }
    return cudaSuccess;
  }
  if (stream->capture) {
    if (!event->point) return cudaSuccess;
    cuda_emulator::invalidate(*stream->capture);
    return call.result(cudaErrorStreamCaptureIsolation);
  }
  if (event->point && !event->point->reached) stream->queue.push_back({.awaited = event->point});
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const Call call;
  return call.result(enqueue(stream, [=] { function(data); }));
}

// ---- Events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Call call;
  *event = new Event{.timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Call call;
  if (event == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const Call call;
  Stream* stream = find(handle);
  if (stream == nullptr || event == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (const auto& capture = stream->capture) {
    if (!capture->valid) return call.result(cudaErrorStreamCaptureInvalidated);
    event->capture = capture;
    event->tail = stream->tail;
    event->point.reset();
    return cudaSuccess;
  }
  event->capture.reset();
  event->point = std::make_shared<cuda_emulator::Point>(cuda_emulator::Point{.stream = stream});
  if (const cudaError_t error = enqueue(handle, {})) return call.result(error);
  stream->queue.push_back({.mark = event->point});
  if (cuda_emulator::is_eager()) cuda_emulator::run(*stream);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Call call;
  if (event == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (event->capture) {
    cuda_emulator::invalidate(*event->capture);
    return call.result(cudaErrorCapturedEvent);
  }
  if (const cudaError_t error = cuda_emulator::unsafe_call()) return call.result(error);
  if (!event->point || event->point->reached) return cudaSuccess;
  std::optional<int>& denials = event->point->denials;
  if (!denials) denials = cuda_emulator::next_event_denials();
  if ((*denials)-- > 0) return cudaErrorNotReady;
  const bool reached = cuda_emulator::run(*event->point->stream, event->point.get(), false);
  return reached ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Call call;
  if (event == nullptr) return call.result(cudaErrorInvalidResourceHandle);
  if (event->capture) {
    cuda_emulator::invalidate(*event->capture);
    return call.result(cudaErrorCapturedEvent);
  }
  if (const cudaError_t error = cuda_emulator::unsafe_call()) return call.result(error);
  ++counters().host_waits;
  if (event->point && !event->point->reached) cuda_emulator::run(*event->point->stream, event->point.get());
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Call call;
  if (!start || !end || !start->point || !end->point || !start->timed || !end->timed)
    return call.result(cudaErrorInvalidResourceHandle);
  if (!start->point->reached || !end->point->reached) return call.result(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->point->time - start->point->time).count();
  return cudaSuccess;
}

// ---- Launching

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
  const Call call;
  return call.result(value <= 48 << 10 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cuda_emulator::enqueue_kernel(const Launch& launch, std::function<void()> thread,
                                          cudaStream_t stream) {
  const Call call;
  const dim3& g = launch.grid;
  const dim3& b = launch.block;
  if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535 || b.x == 0 ||
      b.y == 0 || b.z == 0 || b.z > 64 || std::size_t{b.x} * b.y * b.z > 1024)
    return call.result(cudaErrorInvalidConfiguration);
  if (launch.shared_bytes > 48 << 10 || launch.parameter_bytes > 4096)
    return call.result(cudaErrorInvalidValue);
  ++counters().launches;
  if (launch.early) ++counters().early_launches;
  return call.result(enqueue(stream, [launch, thread = std::move(thread)] {
    ++counters().executed;
    execute(launch, thread);
    cuda_emulator::spend(1.0);
  }));
}
