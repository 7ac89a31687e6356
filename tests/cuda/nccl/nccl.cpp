// A stand-in of NCCL for the emulated GPU: the entry points that Tandem calls, in a library that
// TANDEM_NCCL_LIBRARY names. Ranks are processes of one host; values go through shared memory. It enforces
// NCCL's requirements, also those that NCCL does not report: device memory, non-blocking communicators, equal
// collectives on all ranks.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/emulator/control.h"
#include "tests/cuda/nccl/collective.h"

using nccl_stand_in::Collective;
using nccl_stand_in::Communicator;

// A handle, which outlives nothing that is still on a stream.
struct ncclComm {
  std::shared_ptr<Communicator> communicator;
  int denials = 3;  // how often it says of itself that it is in progress still
  bool group_in_progress = false;
};

namespace {

template <class Function>
Function* of_emulator(const char* name) {
  const char* const library = std::getenv("TANDEM_CUDA_LIBRARY");
  void* const opened = library ? dlopen(library, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  void* const found = opened ? dlsym(opened, name) : nullptr;
  if (!found) throw std::runtime_error(std::string("the emulator has no ") + name);
  return reinterpret_cast<Function*>(found);
}

bool put_on_stream(void* stream, std::function<std::function<bool()>()> begin) {
  static auto* const put = of_emulator<bool(void*, std::function<std::function<bool()>()>)>(
      "_ZN13cuda_emulator13put_on_streamEPvSt8functionIFS1_IFbvEEvEE");
  return put(stream, std::move(begin));
}

bool is_device_memory(const void* address, std::size_t bytes) {
  static auto* const is =
      of_emulator<bool(const void*, std::size_t)>("_ZN13cuda_emulator16is_device_memoryEPKvm");
  return is(address, bytes);
}

// Of this thread: collectives between ncclGroupStart and ncclGroupEnd.
struct Asked {
  ncclComm_t handle;
  Collective collective;
  void* stream;
};
thread_local int groups = 0;
thread_local std::vector<Asked> group;

ncclResult_t refuse(ncclComm_t handle, const std::string& why) {
  handle->communicator->last_error = why;
  return ncclInvalidArgument;
}

ncclResult_t put(const Asked& asked) {
  auto& communicator = asked.handle->communicator;
  const bool taken = put_on_stream(asked.stream, [communicator, collective = asked.collective] {
    return nccl_stand_in::begin(communicator, collective);
  });
  return taken ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ask(ncclComm_t handle, const Collective& collective, void* stream) {
  static const nccl_stand_in::Fault fault = nccl_stand_in::asked_for();
  Communicator& own = *handle->communicator;
  if (fault.is("hang", own.rank, ++own.calls))
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::size_t size = nccl_stand_in::size_of(collective.type);
  if (size == 0) return refuse(handle, "a type that the stand-in has not");
  if (collective.reduction != ncclSum && collective.reduction != ncclMin && collective.reduction != ncclMax)
    return refuse(handle, "a reduction that the stand-in has not");
  const std::size_t bytes = collective.count * size, all = bytes * static_cast<std::size_t>(own.size);
  const std::size_t sent = collective.kind == nccl_stand_in::reduce_scatter ? all : bytes;
  const std::size_t received = collective.kind == nccl_stand_in::all_gather ? all : bytes;
  if (!is_device_memory(collective.sent, sent) || !is_device_memory(collective.received, received))
    return refuse(handle, "a buffer that is no memory of the device");
  const Asked asked{handle, collective, stream};
  if (groups == 0) return put(asked);
  group.push_back(asked);
  return ncclSuccess;
}

std::string name_in(const ncclUniqueId& id) { return id.internal; }

}  // namespace

extern "C" {

#define NCCL_STAND_IN __attribute__((visibility("default")))

NCCL_STAND_IN ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

NCCL_STAND_IN const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

NCCL_STAND_IN const char* ncclGetLastError(ncclComm_t handle) {
  Communicator& own = *handle->communicator;
  if (own.mapping.shared().error > 0) own.last_error = own.mapping.shared().error_text;
  return own.last_error.c_str();
}

NCCL_STAND_IN ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  *id = {};
  snprintf(id->internal, sizeof(id->internal), "tandem_nccl_%d_%08x%08x", static_cast<int>(getpid()),
           random(), random());
  return ncclSuccess;
}

NCCL_STAND_IN ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank,
                                                  ncclConfig_t* config) {
  if (!config || config->blocking != 0 || ranks < 1 || ranks > nccl_stand_in::kMostRanks || rank < 0 ||
      rank >= ranks)
    return ncclInvalidArgument;
  try {
    *handle = new ncclComm{std::make_shared<Communicator>(name_in(id), rank, ranks)};
  } catch (const std::exception&) {
    return ncclSystemError;
  }
  ++(*handle)->communicator->mapping.shared().attached;
  return ncclInProgress;
}

NCCL_STAND_IN ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* result) {
  Communicator& own = *handle->communicator;
  const int error = own.mapping.shared().error;
  if (error > 0) {
    *result = static_cast<ncclResult_t>(error);
  } else if (own.mapping.shared().attached < own.size || handle->denials-- > 0) {
    *result = ncclInProgress;
  } else {
    if (own.rank == 0 && own.collectives == 0) own.mapping.unlink();
    *result = ncclSuccess;
  }
  return ncclSuccess;
}

NCCL_STAND_IN ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

NCCL_STAND_IN ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  delete handle;
  return ncclSuccess;
}

NCCL_STAND_IN ncclResult_t ncclCommAbort(ncclComm_t handle) {
  handle->communicator->aborted = true;
  handle->communicator->mapping.unlink();
  delete handle;
  return ncclSuccess;
}

NCCL_STAND_IN ncclResult_t ncclAllReduce(const void* sent, void* received, size_t count, ncclDataType_t type,
                                         ncclRedOp_t reduction, ncclComm_t handle, cudaStream_t stream) {
  return ask(handle, {nccl_stand_in::all_reduce, sent, received, count, type, reduction}, stream);
}

NCCL_STAND_IN ncclResult_t ncclReduceScatter(const void* sent, void* received, size_t count,
                                             ncclDataType_t type, ncclRedOp_t reduction, ncclComm_t handle,
                                             cudaStream_t stream) {
  return ask(handle, {nccl_stand_in::reduce_scatter, sent, received, count, type, reduction}, stream);
}

NCCL_STAND_IN ncclResult_t ncclAllGather(const void* sent, void* received, size_t count, ncclDataType_t type,
                                         ncclComm_t handle, cudaStream_t stream) {
  return ask(handle, {nccl_stand_in::all_gather, sent, received, count, type}, stream);
}

NCCL_STAND_IN ncclResult_t ncclBroadcast(const void* sent, void* received, size_t count, ncclDataType_t type,
                                         int root, ncclComm_t handle, cudaStream_t stream) {
  return ask(handle, {nccl_stand_in::broadcast, sent, received, count, type, ncclSum, root}, stream);
}

NCCL_STAND_IN ncclResult_t ncclGroupStart() {
  ++groups;
  return ncclSuccess;
}

// What is asked for in a group goes on the stream at its end, which is in progress for a while.
NCCL_STAND_IN ncclResult_t ncclGroupEnd() {
  if (groups == 0) return ncclInvalidUsage;
  if (--groups > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (const Asked& asked : std::exchange(group, {})) {
    if (const ncclResult_t each = put(asked); each != ncclSuccess) result = each;
    asked.handle->denials = 1;
    if (result == ncclSuccess || result == ncclInProgress) result = ncclInProgress;
  }
  return result;
}

}  // extern "C"
