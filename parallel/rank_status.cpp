#include "parallel/rank_status.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>

#include "core/error.h"

namespace tandem::parallel {

// All zeros mean an empty record, so a zeroed file needs no initialisation.
struct RankStatusBoard::Header {
  std::atomic<std::uint64_t> id;
  std::atomic<std::uint32_t> aborted, told;
};

// A rank's own cache line.
struct alignas(64) RankStatusBoard::Slot {
  std::atomic<std::int32_t> process;
  std::atomic<Call> call;
  std::atomic<std::uint64_t> begun, ended;  // ended: all calls below this number + 1
  std::atomic<std::int64_t> looked_ms;
  std::atomic<std::uint64_t> started;  // start_of_process
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // required between processes

namespace {

constexpr std::size_t kHeaderBytes = 64;

// Host-wide clock: CLOCK_MONOTONIC.
std::int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

// Zeroed if new; null if unavailable.
void* map_shared(const std::string& path, std::size_t bytes) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  // Reserves the space now, so that a full disk is an error instead of a signal later.
  if (posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0)
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : memory;
}

// The text of /proc/PID/stat from the state on; empty if the process does not exist.
std::optional<std::array<char, 512>> stat_of(std::int32_t process) {
  std::FILE* const file = std::fopen(fmt::format("/proc/{}/stat", process).c_str(), "re");
  if (!file) return std::nullopt;
  std::array<char, 512> text{};
  const std::size_t length = std::fread(text.data(), 1, text.size() - 1, file);
  std::fclose(file);
  // "PID (name) STATE …"; the name may contain anything, including parentheses.
  std::size_t end = length;
  while (end > 0 && text[end - 1] != ')') --end;
  std::array<char, 512> rest{};
  if (end > 0 && end + 1 < length) std::copy(text.data() + end + 1, text.data() + length, rest.data());
  return rest;
}

void* map_private(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw VendorError("ranks", fmt::format("the system refuses {} bytes: {}", bytes, std::strerror(errno)));
  return memory;
}

}  // namespace

std::string_view name_of(Call call) {
  constexpr std::string_view names[] = {"nothing",    "the start",  "all_reduce", "reduce_scatter",
                                        "all_gather", "all_to_all", "broadcast",  "gather",
                                        "barrier",    "the end",    "the end"};
  return names[static_cast<int>(call)];
}

ProcessState state_of_process(std::int32_t process) {
  const auto stat = stat_of(process);
  if (!stat) return ProcessState::ended;
  switch (stat->front()) {
    case '\0':
      return ProcessState::unknown;
    case 'T':
    case 't':
      return ProcessState::stopped;
    case 'Z':
    case 'X':
      return ProcessState::ended;
    default:
      return ProcessState::runs;
  }
}

std::uint64_t start_of_process(std::int32_t process) {
  constexpr int kFieldsBetween = 19;  // from the state, field 3 of proc(5), to starttime, field 22
  const auto stat = stat_of(process);
  const char* field = stat ? stat->data() : nullptr;
  for (int i = 0; field && i < kFieldsBetween; ++i) {
    field = std::strchr(field, ' ');
    if (field) ++field;
  }
  return field ? std::strtoull(field, nullptr, 10) : 0;
}

RankStatusBoard::RankStatusBoard(int rank, int size, const std::string& folder)
    : rank_(rank), size_(size), bytes_(kHeaderBytes + static_cast<std::size_t>(size) * sizeof(Slot)) {
  static_assert(sizeof(Header) <= kHeaderBytes && sizeof(Slot) == 64);
  void* memory = nullptr;
  if (!folder.empty()) {
    path_ = folder + "/tandem-ranks";
    memory = map_shared(path_, bytes_);
    if (!memory) path_.clear();
  }
  if (!memory) memory = map_private(bytes_);
  header_ = static_cast<Header*>(memory);
  std::random_device random;
  std::uint64_t none = 0;
  const std::uint64_t id = (std::uint64_t{random()} << 32 | random()) | 1;
  header_->id.compare_exchange_strong(none, id);
  looked();
  slot(rank_).started = start_of_process(getpid());
  slot(rank_).process = getpid();
}

RankStatusBoard::~RankStatusBoard() { munmap(header_, bytes_); }

RankStatusBoard::Slot& RankStatusBoard::slot(int rank) const {
  return reinterpret_cast<Slot*>(reinterpret_cast<std::byte*>(header_) + kHeaderBytes)[rank];
}

std::uint64_t RankStatusBoard::id() const { return header_->id; }

void RankStatusBoard::unlink() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

void RankStatusBoard::begun(std::uint64_t number, Call call) {
  slot(rank_).call = call;
  slot(rank_).begun = number;
  looked();
}

void RankStatusBoard::ended_below(std::uint64_t oldest) { slot(rank_).ended = oldest - 1; }

void RankStatusBoard::looked() { slot(rank_).looked_ms.store(now_ms(), std::memory_order_relaxed); }

bool RankStatusBoard::first_to_abort() { return header_->aborted.exchange(1) == 0; }

void RankStatusBoard::has_told() { header_->told = 1; }

bool RankStatusBoard::is_told() const { return header_->told != 0; }

void RankStatusBoard::kill_where(bool (*applies)(const RankStatus&)) const {
  for (const RankStatus& arrival : read())
    if (arrival.rank != rank_ && applies(arrival) &&
        start_of_process(arrival.process) == slot(arrival.rank).started)
      kill(arrival.process, SIGKILL);
}

void RankStatusBoard::kill_stopped() const {
  kill_where([](const RankStatus& arrival) { return arrival.state == ProcessState::stopped; });
}

void RankStatusBoard::kill_others() const {
  kill_where([](const RankStatus& arrival) { return arrival.state != ProcessState::ended; });
}

RankStatus RankStatusBoard::read_slot(int rank) const {
  const Slot& from = slot(rank);
  RankStatus arrival{.rank = rank, .process = from.process};
  arrival.oldest = from.ended + 1;  // read before `begun`, so that no unstarted call counts as ended
  arrival.begun = from.begun;
  arrival.call = from.call;
  arrival.silent_ms = now_ms() - from.looked_ms;
  arrival.state = state_of_process(arrival.process);
  return arrival;
}

std::vector<RankStatus> RankStatusBoard::read() const {
  std::vector<RankStatus> arrivals;
  for (int rank = 0; rank < size_; ++rank)
    if (slot(rank).process != 0) arrivals.push_back(read_slot(rank));
  return arrivals;
}

}  // namespace tandem::parallel
