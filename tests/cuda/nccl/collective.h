// A collective of the stand-in: a rank's work in its turn on the stream, in pieces that fit the shared
// memory.
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <string>

#include "tests/cuda/nccl/shared.h"

namespace nccl_stand_in {

enum Kind : std::int32_t { all_reduce, reduce_scatter, all_gather, broadcast };

// A fault that a test asks for: TANDEM_NCCL_STAND_IN is WHAT:RANK:NUMBER.
struct Fault {
  std::string what;  // hang: a call does not return; stall: a collective does not end; fail: one has failed
  int rank = -1;
  std::uint64_t number = 0;  // of the rank's calls, or of its collectives, from 1

  bool is(const char* name, int of_rank, std::uint64_t now) const {
    return what == name && rank == of_rank && number == now;
  }
};
Fault asked_for();

struct Communicator {
  Communicator(const std::string& name, int rank_, int size_)
      : rank(rank_), size(size_), mapping(name, size_) {}

  const int rank, size;
  Mapping mapping;
  std::atomic<bool> aborted{false};
  std::uint64_t calls = 0, collectives = 0;  // asked for; begun on the stream
  std::uint64_t pieces = 0;
  std::string last_error{};
};

struct Collective {
  Kind kind;
  const void* sent;
  void* received;
  std::uint64_t count;  // as the call has it
  ncclDataType_t type;
  ncclRedOp_t reduction = ncclSum;
  int root = 0;
};

std::size_t size_of(ncclDataType_t type);  // 0: the stand-in has no such type

// Begins it on this rank; gives what helps it along.
std::function<bool()> begin(const std::shared_ptr<Communicator>& communicator, const Collective& collective);

}  // namespace nccl_stand_in
