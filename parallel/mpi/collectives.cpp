// Collectives of MpiCommunicator. All pieces of a call are started at once, because MPI needs the same order
// on all ranks, and calls overlap.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "parallel/mpi/communicator.h"

namespace tandem::parallel {

namespace {

std::byte* at(void* data, std::size_t offset) { return static_cast<std::byte*>(data) + offset; }
const std::byte* at(const void* data, std::size_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}

// Calls use(offset, length) for consecutive pieces of at most `longest`.
template <class Use>
void for_pieces(std::size_t count, std::size_t longest, Use&& use) {
  for (std::size_t offset = 0; offset < count; offset += longest)
    use(offset, static_cast<int>(std::min(longest, count - offset)));
}

// MPI counts in int.
std::vector<int> as_int(std::span<const std::size_t> counts, std::size_t unit) {
  std::vector<int> result;
  for (const std::size_t count : counts) result.push_back(static_cast<int>(count * unit));
  return result;
}

// First element of the part of `rank`.
std::size_t begin_of(std::span<const std::size_t> counts, std::size_t rank) {
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(rank), std::size_t{0});
}

}  // namespace

// An all-reduce that may overlap with other calls.
class MpiCommunicator::AllReduce final : public Pending::Work {
 public:
  AllReduce(MpiCommunicator& ranks, Operation operation) : ranks_(ranks), operation_(std::move(operation)) {}
  ~AllReduce() override {
    if (!ended_ && ranks_.broken_.empty()) ranks_.broken_ = "an all_reduce was dropped before it finished";
  }
  AllReduce(const AllReduce&) = delete;
  AllReduce& operator=(const AllReduce&) = delete;

  bool test() override {
    check_use();
    return ended_ = ended_ || ranks_.test(operation_);
  }
  void wait(double deadline_s) override {
    check_use();
    ranks_.wait(operation_, deadline_s);
    ended_ = true;
  }

 private:
  void check_use() const {
    if (!ranks_.broken_.empty())
      throw RankError("all_reduce", "the ranks are no longer connected: " + ranks_.broken_, {});
  }

  MpiCommunicator& ranks_;
  Operation operation_;
  bool ended_ = false;
};

void MpiCommunicator::find_hosts(const Launch& launch) {
  struct Place {
    std::uint64_t board;
    std::array<char, 64> host;
  };
  Place own{board_.id(), {}};
  if (gethostname(own.host.data(), own.host.size() - 1) != 0) own.host[0] = '\0';
  std::vector<Place> places(static_cast<std::size_t>(size()));
  all_gather(std::span(reinterpret_cast<const std::byte*>(&own), sizeof own),
             std::span(reinterpret_cast<std::byte*>(places.data()), places.size() * sizeof own),
             options_.deadline_s);
  std::vector<std::uint64_t> boards;
  for (const Place& place : places) {
    hosts_.emplace_back(place.host.data());
    boards.push_back(place.board);
  }
  handshake_.set_boards(boards);
  const std::set<std::string> hosts(hosts_.begin(), hosts_.end());
  host_count_ = hosts.size();
  if (launch.local_rank == 0) board_.unlink();  // every rank has opened it
}

// Either all ranks have the shared memory or none: if one fails, MPI does the sums instead.
void MpiCommunicator::open_host_sums() {
  const bool one_host = handshake_.is_one_board();
  if (size() == 1 || !one_host) return;
  std::unique_ptr<SharedMemory> memory;
  const auto if_it_can = [&](auto&& open) {
    try {
      memory = open();
    } catch (const VendorError&) {
      memory.reset();
    }
  };
  SharedMemory::Place place;
  if (rank() == 0) {
    if_it_can([&] { return std::make_unique<SharedMemory>(HostSums::bytes_for(size())); });
    if (memory) place = memory->place();
  }
  broadcast(std::as_writable_bytes(std::span(&place, 1)), 0, options_.deadline_s);
  if (rank() > 0 && place.process > 0) if_it_can([&] { return std::make_unique<SharedMemory>(place); });
  const bool all =
      all_reduce_value(std::int64_t{memory != nullptr}, Reduction::min, options_.deadline_s) == 1;
  if (!all) return;
  memory->close_file();
  host_sums_ = std::make_unique<HostSums>(rank(), size(), std::move(memory));
}

Pending MpiCommunicator::do_start_all_reduce(Elements data, Reduction reduction) {
  Operation operation = begin(Call::all_reduce);
  if (host_sums_ && reduction == Reduction::sum && HostSums::adds(data.dtype)) {
    const CallWatch::Inside inside(call_watch_);
    operation.ticket = host_sums_->begin(data);
    return Pending(std::make_unique<AllReduce>(*this, std::move(operation)));
  }
  const MpiReduction by = reduction_of(mpi_, data.dtype, reduction);
  const std::size_t width = size_of(data.dtype);
  for_pieces(data.count, options_.piece_bytes / width, [&](std::size_t offset, int count) {
    add(operation, "MPI_Iallreduce", [&](MPI_Request* request) {
      return mpi_.Iallreduce(MPI_IN_PLACE, at(data.data, offset * width), count, by.type, by.op, mpi_.world,
                             request);
    });
  });
  return Pending(std::make_unique<AllReduce>(*this, std::move(operation)));
}

void MpiCommunicator::do_reduce_scatter(ConstElements all, std::span<const std::size_t> counts, Elements own,
                                        Reduction reduction, double deadline_s) {
  Operation operation = begin(Call::reduce_scatter);
  const MpiReduction by = reduction_of(mpi_, all.dtype, reduction);
  const std::size_t width = size_of(all.dtype);
  // MPI needs a separate result buffer.
  const bool in_place = own.data >= all.data && own.data < at(all.data, all.bytes());
  std::vector<std::byte> beside(in_place ? own.bytes() : 0);
  void* const result = in_place ? beside.data() : own.data;
  if (all.bytes() <= options_.piece_bytes) {
    const std::vector<int> lengths = as_int(counts, 1);
    add(operation, "MPI_Ireduce_scatter", [&](MPI_Request* request) {
      return mpi_.Ireduce_scatter(all.data, result, lengths.data(), by.type, by.op, mpi_.world, request);
    });
    wait(operation, deadline_s);
  } else {
    for (int owner = 0; owner < size(); ++owner) {
      const auto index = static_cast<std::size_t>(owner);
      const std::byte* const part = at(all.data, begin_of(counts, index) * width);
      for_pieces(counts[index], options_.piece_bytes / width, [&](std::size_t offset, int count) {
        void* const target = owner == rank() ? at(result, offset * width) : nullptr;
        add(operation, "MPI_Ireduce", [&](MPI_Request* request) {
          return mpi_.Ireduce(part + offset * width, target, count, by.type, by.op, owner, mpi_.world,
                              request);
        });
      });
    }
    wait(operation, deadline_s);
  }
  if (!beside.empty()) std::memcpy(own.data, beside.data(), beside.size());
}

void MpiCommunicator::do_all_gather(ConstElements own, std::span<const std::size_t> counts, Elements all,
                                    double deadline_s) {
  Operation operation = begin(Call::all_gather);
  const std::size_t width = size_of(all.dtype);
  std::byte* const place = at(all.data, begin_of(counts, static_cast<std::size_t>(rank())) * width);
  if (own.data != place && own.count > 0) std::memcpy(place, own.data, own.bytes());
  if (all.bytes() <= options_.piece_bytes) {
    const std::vector<int> lengths = as_int(counts, width);
    std::vector<int> begins(lengths.size());
    std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
    add(operation, "MPI_Iallgatherv", [&](MPI_Request* request) {
      return mpi_.Iallgatherv(MPI_IN_PLACE, 0, mpi_.byte, all.data, lengths.data(), begins.data(), mpi_.byte,
                              mpi_.world, request);
    });
    wait(operation, deadline_s);
  } else {
    std::size_t next = 0;
    for (int owner = 0; owner < size(); ++owner) {
      const std::size_t bytes = counts[static_cast<std::size_t>(owner)] * width;
      broadcast_in_pieces(operation, at(all.data, next), bytes, owner);
      next += bytes;
    }
    wait(operation, deadline_s);
  }
}

void MpiCommunicator::do_all_to_all(ConstElements outgoing, std::span<const std::size_t> outgoing_counts,
                                    Elements incoming, std::span<const std::size_t> incoming_counts,
                                    double deadline_s) {
  Operation operation = begin(Call::all_to_all);
  const std::size_t width = size_of(incoming.dtype);
  const std::byte* from = at(outgoing.data, 0);
  std::byte* to = at(incoming.data, 0);
  for (int other = 0; other < size(); ++other) {
    const auto index = static_cast<std::size_t>(other);
    const std::size_t sent = outgoing_counts[index] * width, received = incoming_counts[index] * width;
    if (other != rank()) {
      receive_in_pieces(operation, to, received, other);
      send_in_pieces(operation, from, sent, other);
    } else if (sent > 0) {
      std::memcpy(to, from, sent);
    }
    from += sent;
    to += received;
  }
  wait(operation, deadline_s);
}

void MpiCommunicator::do_broadcast(Elements data, int root, double deadline_s) {
  Operation operation = begin(Call::broadcast);
  broadcast_in_pieces(operation, data.data, data.bytes(), root);
  wait(operation, deadline_s);
}

std::vector<std::vector<std::byte>> MpiCommunicator::do_gather_bytes(std::span<const std::byte> own,
                                                                     double deadline_s) {
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size()), own.size());
  Operation telling = begin(Call::gather);
  if (rank() == 0) {
    for (int other = 1; other < size(); ++other)
      receive_in_pieces(telling, &lengths[static_cast<std::size_t>(other)], sizeof lengths[0], other);
  } else {
    send_in_pieces(telling, lengths.data(), sizeof lengths[0], 0);
  }
  wait(telling, deadline_s);
  std::vector<std::vector<std::byte>> gathered;
  Operation sending = begin(Call::gather);
  if (rank() == 0) {
    gathered.emplace_back(own.begin(), own.end());
    for (int other = 1; other < size(); ++other) {
      std::vector<std::byte>& bytes = gathered.emplace_back(lengths[static_cast<std::size_t>(other)]);
      receive_in_pieces(sending, bytes.data(), bytes.size(), other);
    }
  } else {
    send_in_pieces(sending, own.data(), own.size(), 0);
  }
  wait(sending, deadline_s);
  return gathered;
}

void MpiCommunicator::do_barrier(double deadline_s) {
  Operation operation = begin(Call::barrier);
  add(operation, "MPI_Ibarrier", [&](MPI_Request* request) { return mpi_.Ibarrier(mpi_.world, request); });
  wait(operation, deadline_s);
}

void MpiCommunicator::broadcast_in_pieces(Operation& operation, void* data, std::size_t bytes, int root) {
  for_pieces(bytes, options_.piece_bytes, [&](std::size_t offset, int count) {
    add(operation, "MPI_Ibcast", [&](MPI_Request* request) {
      return mpi_.Ibcast(at(data, offset), count, mpi_.byte, root, mpi_.world, request);
    });
  });
}

void MpiCommunicator::send_in_pieces(Operation& operation, const void* data, std::size_t bytes, int rank) {
  for_pieces(bytes, options_.piece_bytes, [&](std::size_t offset, int count) {
    add(operation, "MPI_Isend", [&](MPI_Request* request) {
      return mpi_.Isend(at(data, offset), count, mpi_.byte, rank, kDataTag, mpi_.world, request);
    });
  });
}

void MpiCommunicator::receive_in_pieces(Operation& operation, void* data, std::size_t bytes, int rank) {
  for_pieces(bytes, options_.piece_bytes, [&](std::size_t offset, int count) {
    add(operation, "MPI_Irecv", [&](MPI_Request* request) {
      return mpi_.Irecv(at(data, offset), count, mpi_.byte, rank, kDataTag, mpi_.world, request);
    });
  });
}

}  // namespace tandem::parallel
