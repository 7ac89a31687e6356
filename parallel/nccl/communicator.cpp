#include "parallel/nccl/communicator.h"

#include <cstring>
#include <exception>
#include <vector>

#include "core/device_library.h"
#include "core/error.h"
#include "parallel/abort_message.h"
#include "parallel/agreement.h"
#include "parallel/deadline.h"
#include "parallel/launch.h"
#include "parallel/watchdog.h"

namespace tandem::parallel {

namespace {

constexpr double kLookEvery = 0.01;  // seconds between polls of NCCL and of the other ranks
constexpr double kNcclAbort = 10;    // seconds for NCCL to abort

DeviceLink& link_of(Device device) {
  const DeviceLibrary& library = library_of(device);
  ensure(library.link != nullptr, "nccl", "{} has no link", to_string(device));
  return library.link(device.index);
}

}  // namespace

NcclCommunicator::NcclCommunicator(Communicator& ranks, Device device, double deadline_s)
    : DeviceCommunicator(ranks.rank(), ranks.size(), device),
      ranks_(ranks),
      link_(link_of(device)),
      deadline_s_(deadline_s) {}

std::string NcclCommunicator::description() const {
  return "NCCL " + nccl_version_text(opened_nccl().version);
}

void NcclCommunicator::connect() {
  if (communicator_) return;
  std::string identity;
  agree_on(ranks_, ending_of([&] {
             const OpenedNccl& opened = opened_nccl();
             if (!opened.library)
               throw VendorError("nccl",
                                 "ranks on GPUs need NCCL: " + opened.why_none + "; device=cpu does not");
             link_.select();
             identity = link_.identity();
             link_.stream();
           }),
           deadline_s_);
  require_own_device(identity);
  const ncclUniqueId id = agreed_id();
  begin_step();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  settle("ncclCommInitRankConfig", nccl().CommInitRankConfig(&communicator_, size(), id, rank(), &config));
  link_.watch([this](double waited_s) { look(waited_s); });
}

// NCCL rejects two ranks on one GPU with an unhelpful message.
void NcclCommunicator::require_own_device(const std::string& identity) {
  const std::string place = host_name() + " " + identity + "\n" + nccl_version_text(opened_nccl().version);
  const std::vector<std::string> places = ranks_.all_gather_text(place, deadline_s_);
  const auto device_in = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  const auto version_in = [](const std::string& text) { return text.substr(text.find('\n') + 1); };
  for (std::size_t rank = 1; rank < places.size(); ++rank) {
    if (version_in(places[rank]) != version_in(places[0]))
      throw AgreedError(
          fmt::format("[nccl] ranks must use one version of NCCL: rank 0 has {}, rank {} has {}; "
                      "TANDEM_NCCL_LIBRARY names another library",
                      version_in(places[0]), rank, version_in(places[rank])),
          true);
    for (std::size_t other = 0; other < rank; ++other)
      if (device_in(places[other]) == device_in(places[rank]))
        throw AgreedError(
            fmt::format("[nccl] each rank needs its own GPU: ranks {} and {} have the same one ({}); "
                        "start as many ranks on a host as it has GPUs, or use device=cpu",
                        other, rank, device_in(places[rank])),
            true);
  }
}

ncclUniqueId NcclCommunicator::agreed_id() {
  ncclUniqueId id{};
  agree_on(ranks_, ending_of([&] {
             if (rank() != 0) return;
             if (const ncclResult_t result = nccl().GetUniqueId(&id); result != ncclSuccess)
               throw VendorError("nccl", fmt::format("ncclGetUniqueId: {}", nccl().GetErrorString(result)));
           }),
           deadline_s_);
  ranks_.broadcast(Elements(&id, sizeof id, DType::u8), 0, deadline_s_);
  return id;
}

void NcclCommunicator::put(std::string_view what, const std::function<ncclResult_t(cudaStream_t)>& call) {
  require_whole();
  ensure(communicator_ != nullptr, "nccl", "the GPUs are not connected");
  link_.fork();
  settle(what, call(static_cast<cudaStream_t>(link_.stream())));
}

void NcclCommunicator::do_all_reduce(std::span<const ReducedElements> values) {
  put("ncclAllReduce", [&](cudaStream_t stream) {
    if (const ncclResult_t result = nccl().GroupStart(); result != ncclSuccess) return result;
    ncclResult_t failed = ncclSuccess;
    for (const auto& [data, reduction] : values) {
      const ncclResult_t result = nccl().AllReduce(data.data, data.data, data.count, nccl_type(data.dtype),
                                                   nccl_op(reduction), communicator_, stream);
      if (result != ncclSuccess && result != ncclInProgress && failed == ncclSuccess) failed = result;
    }
    const ncclResult_t ended = nccl().GroupEnd();
    return failed != ncclSuccess ? failed : ended;
  });
}

void NcclCommunicator::do_reduce_scatter(ConstElements all, Elements own, Reduction reduction) {
  put("ncclReduceScatter", [&](cudaStream_t stream) {
    return nccl().ReduceScatter(all.data, own.data, own.count, nccl_type(own.dtype), nccl_op(reduction),
                                communicator_, stream);
  });
}

void NcclCommunicator::do_all_gather(ConstElements own, Elements all) {
  put("ncclAllGather", [&](cudaStream_t stream) {
    return nccl().AllGather(own.data, all.data, own.count, nccl_type(own.dtype), communicator_, stream);
  });
}

void NcclCommunicator::do_broadcast(Elements data, int root) {
  put("ncclBroadcast", [&](cudaStream_t stream) {
    return nccl().Broadcast(data.data, data.data, data.count, nccl_type(data.dtype), root, communicator_,
                            stream);
  });
}

void NcclCommunicator::join() {
  require_whole();
  link_.join();
}

void NcclCommunicator::begin_step() {
  if (step_ > 0) ranks_.end_elsewhere(step_);
  step_ = ranks_.begin_elsewhere();
}

void NcclCommunicator::settle(std::string_view what, ncclResult_t result) {
  if (result == ncclSuccess) return;
  Deadline patience(deadline_s_);
  while (result == ncclInProgress) {
    if (patience.over()) give_up(patience.waited_s());
    ranks_.look();
    patience.pause();
    const ncclResult_t asked = nccl().CommGetAsyncError(communicator_, &result);
    if (asked != ncclSuccess) result = asked;
  }
  if (result != ncclSuccess) fail(what, result);
}

void NcclCommunicator::look(double waited_s) {
  require_whole();
  if (waited_s < looked_s_) looked_s_ = 0.0;  // a new wait
  if (waited_s < looked_s_ + kLookEvery && waited_s > 0.0) return;
  looked_s_ = waited_s;
  ranks_.look();
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl().CommGetAsyncError(communicator_, &state);
  if (asked != ncclSuccess) fail("ncclCommGetAsyncError", asked);
  if (state != ncclSuccess && state != ncclInProgress) fail("a collective", state);
  if (waited_s >= deadline_s_) give_up(waited_s);
}

void NcclCommunicator::require_whole() const {
  if (broken_.empty()) return;
  const std::string words = "the GPUs are no longer connected: " + broken_;
  if (by_rank_) throw RankError("nccl", words, {});
  throw VendorError("nccl", words);
}

void NcclCommunicator::fail(std::string_view what, ncclResult_t result) {
  const char* const more = communicator_ ? nccl().GetLastError(communicator_) : nullptr;
  broken_ = fmt::format("NCCL reports of {}: {}{}{}; NCCL_DEBUG=INFO tells more", what,
                        nccl().GetErrorString(result), more && *more ? ": " : "", more ? more : "");
  let_go();
  throw VendorError("nccl", broken_);
}

void NcclCommunicator::give_up(double waited_s) {
  const RankError error = ranks_.absence_elsewhere(step_, waited_s);
  broken_ = error.what();
  by_rank_ = true;
  let_go();
  throw RankError(error);
}

void NcclCommunicator::let_go() noexcept {
  const ExitWatch watch(kNcclAbort, 1, [this] { return words_of_rank(rank(), size(), broken_); });
  if (communicator_) nccl().CommAbort(communicator_);
  communicator_ = nullptr;
}

void NcclCommunicator::abandon() noexcept {
  if (!communicator_) return;
  broken_ = "this rank has failed";
  let_go();
}

NcclCommunicator::~NcclCommunicator() {
  link_.watch({});
  if (communicator_) {
    try {
      settle("ncclCommFinalize", nccl().CommFinalize(communicator_));
      nccl().CommDestroy(communicator_);
    } catch (const std::exception&) {
      // Aborted: the next wait reports the error.
    }
  }
  if (step_ > 0) ranks_.end_elsewhere(step_);
}

}  // namespace tandem::parallel
