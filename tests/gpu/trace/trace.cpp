// libtandem_trace.so: times of kernels, including those in recordings, which events cannot measure. The
// driver loads it into a program started with CUDA_INJECTION64_PATH=libtandem_trace.so; TANDEM_TRACE names
// the file, TANDEM_CUPTI_LIBRARY another libcupti. Lines are
//
//   kind,start_ns,end_ns,graph,node,stream,name      kind: kernel, copy or fill; graph 0: not recorded
//
// in CUPTI's order. Without CUPTI, the program continues and prints a line to standard error.
#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

constexpr std::size_t kBufferBytes = std::size_t{4} << 20, kAlignment = 8;

// CUPTI is opened when it is asked for: a machine without it runs the program all the same.
struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;

  bool open() {
    const char* const named = std::getenv("TANDEM_CUPTI_LIBRARY");
    void* library = dlopen(named ? named : "libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!library && !named) library = dlopen("libcupti.so", RTLD_NOW | RTLD_LOCAL);
    return library && find(library, "cuptiActivityRegisterCallbacks", register_callbacks) &&
           find(library, "cuptiActivityEnable", enable) &&
           find(library, "cuptiActivityFlushAll", flush_all) &&
           find(library, "cuptiActivityGetNextRecord", next_record) &&
           find(library, "cuptiActivityGetNumDroppedRecords", dropped_records);
  }

 private:
  template <class Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }
};

Cupti cupti;
std::FILE* file = nullptr;
std::mutex file_mutex;
std::size_t dropped = 0;

void write_line(const char* kind, std::uint64_t start, std::uint64_t end, std::uint32_t graph,
                std::uint64_t node, std::uint32_t stream, const char* name) {
  int status = 0;
  char* const plain = name ? abi::__cxa_demangle(name, nullptr, nullptr, &status) : nullptr;
  std::fprintf(file, "%s,%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu64 ",%" PRIu32 ",\"%s\"\n", kind, start,
               end, graph, node, stream,
               plain  ? plain
               : name ? name
                      : "");
  std::free(plain);
}

void write_record(const CUpti_Activity& record) {
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
    write_line("kernel", kernel.start, kernel.end, kernel.graphId, kernel.graphNodeId, kernel.streamId,
               kernel.name);
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
    write_line("copy", copy.start, copy.end, copy.graphId, copy.graphNodeId, copy.streamId, nullptr);
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
    write_line("fill", fill.start, fill.end, fill.graphId, fill.graphNodeId, fill.streamId, nullptr);
  }
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t /*bytes*/, std::size_t filled) {
  {
    const std::lock_guard lock(file_mutex);
    CUpti_Activity* record = nullptr;
    while (file && cupti.next_record(buffer, filled, &record) == CUPTI_SUCCESS) write_record(*record);
    std::size_t lost = 0;
    if (cupti.dropped_records(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
  }
  std::free(buffer);
}

void finish() {
  cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(file_mutex);
  if (dropped) std::fprintf(stderr, "libtandem_trace: CUPTI dropped %zu records\n", dropped);
  if (std::fclose(file) != 0) std::fprintf(stderr, "libtandem_trace: the trace is not whole\n");
  file = nullptr;
}

int refuse(const char* reason) {
  std::fprintf(stderr, "libtandem_trace: no trace: %s\n", reason);
  return 1;  // the program goes on
}

}  // namespace

// What the driver calls once it has opened the library.
extern "C" __attribute__((visibility("default"))) int InitializeInjection();

int InitializeInjection() {
  const char* const path = std::getenv("TANDEM_TRACE");
  if (!path) return refuse("TANDEM_TRACE names no file");
  if (!cupti.open()) return refuse("no libcupti was found, or one without CUPTI's activities");
  file = std::fopen(path, "w");
  if (!file) return refuse("the file that TANDEM_TRACE names cannot be written");
  std::fprintf(file, "kind,start_ns,end_ns,graph,node,stream,name\n");
  if (cupti.register_callbacks(give_buffer, take_buffer) != CUPTI_SUCCESS)
    return refuse("CUPTI takes no buffers");
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    if (cupti.enable(kind) != CUPTI_SUCCESS) return refuse("CUPTI traces no kernels here");
  std::atexit(finish);
  return 1;
}
