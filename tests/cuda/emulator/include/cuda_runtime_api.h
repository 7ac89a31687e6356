// The part of the CUDA 13 runtime's host API that core/cuda uses, with its names, signatures and values,
// implemented by the emulator. Launches are typed, so that arguments can be stored by value.
#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureMerge = 902,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorStreamCaptureImplicit = 906,
  cudaErrorCapturedEvent = 907,
  cudaErrorStreamCaptureWrongThread = 908,
  cudaErrorUnknown = 999,
};

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

namespace cuda_emulator {
struct Stream;
struct Event;
struct Graph;
struct ExecutableGraph;
}  // namespace cuda_emulator

using cudaStream_t = cuda_emulator::Stream*;
using cudaEvent_t = cuda_emulator::Event*;
using cudaGraph_t = cuda_emulator::Graph*;
using cudaGraphExec_t = cuda_emulator::ExecutableGraph*;

// ---- Devices and errors

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  int maxThreadsPerBlock;
  int major, minor;
  int multiProcessorCount;
  int l2CacheSize;
  int pciBusID, pciDeviceID, pciDomainID;
  std::size_t sharedMemPerBlockOptin;
};

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
};

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDeviceSynchronize();

// ---- Memory

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
enum : unsigned {
  cudaHostAllocDefault = 0,
  cudaHostAllocPortable = 1,
  cudaHostAllocMapped = 2,
  cudaHostAllocWriteCombined = 4
};

enum cudaMemoryType {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2,
  cudaMemoryTypeManaged = 3,
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
};

cudaError_t cudaMalloc(void** address, std::size_t bytes);
cudaError_t cudaFree(void* address);
cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned flags);
cudaError_t cudaMallocHost(void** address, std::size_t bytes, unsigned flags = cudaHostAllocDefault);
cudaError_t cudaFreeHost(void* address);
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address);
cudaError_t cudaMemcpy(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void* target, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* target, int value, std::size_t bytes, cudaStream_t stream = nullptr);

// ---- Streams and events

enum : unsigned { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum : unsigned { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };

cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);

using cudaHostFn_t = void (*)(void*);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data);

cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

// ---- Capture and graphs

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};
struct cudaGraphNode;  // nodes are counted, but not exposed
using cudaGraphNode_t = cudaGraphNode*;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count);
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

// ---- Launches

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);

struct cudaFuncAttributes {
  int ptxVersion;  // 10·major + minor of the compiled PTX
};
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel*) {
  attributes->ptxVersion = 90;
  return cudaSuccess;
}

namespace cuda_emulator {

struct Launch {
  const void* kernel;
  dim3 grid, block;
  std::size_t shared_bytes;     // dynamic
  std::size_t parameter_bytes;  // total size of the arguments
  bool early = false;           // may start before the previous kernel ends
};

// Enqueues the kernel on the stream; each of its threads runs `thread`.
cudaError_t enqueue_kernel(const Launch& launch, std::function<void()> thread, cudaStream_t stream);

}  // namespace cuda_emulator

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
union cudaLaunchAttributeValue {
  int programmaticStreamSerializationAllowed;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  std::tuple<std::remove_cv_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  bool early = false;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    early = early || config->attrs[i].val.programmaticStreamSerializationAllowed != 0;
  return cuda_emulator::enqueue_kernel(
      {reinterpret_cast<const void*>(kernel), config->gridDim, config->blockDim, config->dynamicSmemBytes,
       (std::size_t{0} + ... + sizeof(Parameters)), early},
      [kernel, values = std::move(values)] { std::apply(kernel, values); }, config->stream);
}
