#include "tests/cuda/nccl/collective.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "core/convert.h"
#include "core/dtype.h"

namespace nccl_stand_in {

namespace {

template <class Visit>
void visit_type(ncclDataType_t type, Visit&& visit) {
  switch (type) {
    case ncclFloat64:
      return visit(double{});
    case ncclFloat32:
      return visit(float{});
    case ncclFloat16:
      return visit(tandem::Half{});
    case ncclBfloat16:
      return visit(tandem::BFloat16{});
    case ncclInt64:
      return visit(std::int64_t{});
    case ncclInt32:
      return visit(std::int32_t{});
    default:
      return visit(std::uint8_t{});
  }
}

template <class T>
T reduced(T a, T b, ncclRedOp_t reduction) {
  using Wide = std::conditional_t<sizeof(T) == 2, float, T>;
  const Wide x = tandem::convert<Wide>(a), y = tandem::convert<Wide>(b);
  if (reduction == ncclSum) return tandem::convert<T>(static_cast<Wide>(x + y));
  if (x != x) return a;  // NaN
  if (y != y) return b;
  return (reduction == ncclMax) == (x < y) ? b : a;
}

const char* name_of(std::int32_t kind) {
  constexpr const char* names[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast"};
  return names[kind];
}

std::string described(const Piece& piece) {
  std::ostringstream text;
  text << name_of(piece.kind) << " of " << piece.count << " elements of type " << piece.type;
  if (piece.kind == broadcast) text << " from rank " << piece.root;
  if (piece.kind == all_reduce || piece.kind == reduce_scatter) text << " by operation " << piece.reduction;
  return text.str();
}

// What one rank does.
class Part {
 public:
  Part(std::shared_ptr<Communicator> communicator, const Collective& collective)
      : communicator_(std::move(communicator)),
        collective_(collective),
        size_(size_of(collective.type)),
        number_(++communicator_->collectives) {
    const std::size_t values = kAreaBytes / size_;
    const std::size_t parts = collective_.kind == reduce_scatter ? own().size : 1;
    most_ = values / parts;
  }

  // Whether it has ended.
  bool progress() {
    static const Fault fault = asked_for();
    if (communicator_->aborted) return true;
    if (fault.is("stall", own().rank, number_)) return false;
    if (fault.is("fail", own().rank, number_)) shared().fail(ncclSystemError, "a test asked for it");
    while (first_ < collective_.count) {
      if (shared().error != 0) return false;
      if (!posted_ && !post()) return false;
      if (!take()) return false;
      posted_ = false;
      first_ += length();
    }
    return true;
  }

 private:
  Communicator& own() const { return *communicator_; }
  Shared& shared() const { return communicator_->mapping.shared(); }
  Place& place(int rank) const { return shared().places[rank]; }
  std::uint64_t length() const { return std::min<std::uint64_t>(most_, collective_.count - first_); }
  const std::byte* sent(std::uint64_t element) const {
    return static_cast<const std::byte*>(collective_.sent) + element * size_;
  }
  std::byte* received(std::uint64_t element) const {
    return static_cast<std::byte*>(collective_.received) + element * size_;
  }

  bool all_have(std::atomic<std::uint64_t> Place::*what, std::uint64_t number) const {
    for (int rank = 0; rank < own().size; ++rank)
      if ((place(rank).*what).load(std::memory_order_acquire) < number) return false;
    return true;
  }

  // Puts the values where the others find them, once they have read what was there before.
  bool post() {
    if (!all_have(&Place::taken, own().pieces)) return false;
    ++own().pieces;
    std::byte* const area = communicator_->mapping.area(own().rank);
    const std::uint64_t length = this->length();
    if (collective_.kind == reduce_scatter) {
      for (int part = 0; part < own().size; ++part)
        std::memcpy(area + static_cast<std::size_t>(part) * length * size_,
                    sent(static_cast<std::uint64_t>(part) * collective_.count + first_), length * size_);
    } else if (collective_.kind != broadcast || own().rank == collective_.root) {
      std::memcpy(area, sent(first_), length * size_);
    }
    place(own().rank).piece = {number_,          first_,           collective_.count,
                               collective_.kind, collective_.type, collective_.reduction,
                               collective_.root};
    place(own().rank).posted.store(own().pieces, std::memory_order_release);
    posted_ = true;
    return true;
  }

  // Reads what all have put there.
  bool take() {
    if (!all_have(&Place::posted, own().pieces)) return false;
    for (int rank = 1; rank < own().size; ++rank) {
      if (place(rank).piece == place(0).piece) continue;
      shared().fail(ncclInvalidUsage, "rank 0 does an " + described(place(0).piece) + ", rank " +
                                          std::to_string(rank) + " an " + described(place(rank).piece));
      return false;
    }
    const auto of = [&](int rank) { return communicator_->mapping.area(rank); };
    const std::uint64_t length = this->length();
    switch (collective_.kind) {
      case all_reduce:
        reduce(0, length);
        break;
      case reduce_scatter:
        reduce(static_cast<std::uint64_t>(own().rank) * length, length);
        break;
      case all_gather:
        for (int rank = 0; rank < own().size; ++rank)
          std::memcpy(received(static_cast<std::uint64_t>(rank) * collective_.count + first_), of(rank),
                      length * size_);
        break;
      case broadcast:
        std::memcpy(received(first_), of(collective_.root), length * size_);
        break;
    }
    place(own().rank).taken.store(own().pieces, std::memory_order_release);
    return true;
  }

  // In the order of the ranks, from `first` on in each area: all get the same bits.
  void reduce(std::uint64_t first, std::uint64_t length) {
    visit_type(collective_.type, [&]<class T>(T) {
      const auto values = [&](int rank) {
        return reinterpret_cast<const T*>(communicator_->mapping.area(rank)) + first;
      };
      auto* const results = reinterpret_cast<T*>(received(first_));
      for (std::uint64_t i = 0; i < length; ++i) {
        T sum = values(0)[i];
        for (int rank = 1; rank < own().size; ++rank)
          sum = reduced(sum, values(rank)[i], collective_.reduction);
        results[i] = sum;
      }
    });
  }

  std::shared_ptr<Communicator> communicator_;
  Collective collective_;
  std::size_t size_, most_ = 0;  // bytes of an element; elements of a piece
  std::uint64_t number_;
  std::uint64_t first_ = 0;  // of the piece under way
  bool posted_ = false;
};

}  // namespace

Fault asked_for() {
  const char* const text = std::getenv("TANDEM_NCCL_STAND_IN");
  Fault fault;
  if (!text) return fault;
  std::istringstream words(text);
  std::string rank, number;
  std::getline(words, fault.what, ':');
  std::getline(words, rank, ':');
  std::getline(words, number, ':');
  fault.rank = std::atoi(rank.c_str());
  fault.number = static_cast<std::uint64_t>(std::atoll(number.c_str()));
  return fault;
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclUint8:
    case ncclInt8:
      return 1;
    default:
      return 0;
  }
}

std::function<bool()> begin(const std::shared_ptr<Communicator>& communicator, const Collective& collective) {
  return [part = std::make_shared<Part>(communicator, collective)] { return part->progress(); };
}

}  // namespace nccl_stand_in
