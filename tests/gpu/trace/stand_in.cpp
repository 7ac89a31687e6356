// A libcupti of three records, for a test of libtandem_trace.so.
#include <cupti.h>

#include <cstdint>
#include <cstring>

namespace {

CUpti_BuffersCallbackRequestFunc give = nullptr;
CUpti_BuffersCallbackCompleteFunc take = nullptr;
std::size_t handed_out = 0;

}  // namespace

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  give = request;
  take = complete;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind /*kind*/) { return CUPTI_SUCCESS; }

CUptiResult cuptiActivityFlushAll(std::uint32_t /*flag*/) {
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0, records = 0;
  give(&buffer, &bytes, &records);
  take(nullptr, 0, buffer, bytes, bytes);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t /*filled*/,
                                       CUpti_Activity** record) {
  if (handed_out == 3) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(buffer);
  std::memset(buffer, 0, 512);
  if (handed_out == 0) {
    auto& kernel = *reinterpret_cast<CUpti_ActivityKernel10*>(buffer);
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.start = 100;
    kernel.end = 350;
    kernel.graphId = 7;
    kernel.graphNodeId = 42;
    kernel.streamId = 13;
    kernel.name = "_ZN6tandem4fillIfEEvPT_f";
  } else if (handed_out == 1) {
    auto& copy = *reinterpret_cast<CUpti_ActivityMemcpy6*>(buffer);
    copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    copy.start = 400;
    copy.end = 500;
    copy.streamId = 13;
  } else {
    auto& fill = *reinterpret_cast<CUpti_ActivityMemset4*>(buffer);
    fill.kind = CUPTI_ACTIVITY_KIND_MEMSET;
    fill.start = 600;
    fill.end = 601;
    fill.graphId = 7;
    fill.graphNodeId = 43;
  }
  ++handed_out;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext /*context*/, std::uint32_t /*stream*/,
                                              std::size_t* dropped) {
  *dropped = 2;
  return CUPTI_SUCCESS;
}
