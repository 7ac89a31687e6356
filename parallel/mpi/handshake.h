// Ranks of several hosts tell each other who has arrived, by messages, when one of them has waited in vain.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "parallel/mpi/library.h"
#include "parallel/rank_status.h"

namespace tandem::parallel {

// A rank that waits answers questions now and then, with the record of its host, so one rank that waits is
// enough to speak for all of its host. Messages have tags that nothing else has.
class Handshake {
 public:
  Handshake(const MpiLibrary& mpi, const RankStatusBoard& board) : mpi_(mpi), board_(board) {}

  // Of each rank, what identifies its host's board (RankStatusBoard::id). Nobody is asked before.
  void set_boards(std::vector<std::uint64_t> boards) { boards_ = std::move(boards); }

  // Whether all ranks share this rank's.
  bool is_one_board() const {
    return std::ranges::all_of(boards_, [this](std::uint64_t id) { return id == board_.id(); });
  }

  // Answers who has asked. Waits for nobody.
  void serve();

  // What is known of all ranks: this host's record, and those that ranks of other hosts answer with within
  // `patience_s` seconds. Ranks that are not in the result were neither seen nor heard.
  std::vector<RankStatus> call(double patience_s);

 private:
  // A question is empty; an answer has a record for every rank, of process 0 for those of other hosts.
  struct Message {
    std::vector<RankStatus> records;
    MPI_Request request = nullptr;
    bool is_answer_to_us = false;
  };

  bool probe(int tag, int& source);
  void send(int rank, int tag, std::vector<RankStatus> records);
  void receive(int rank, int tag, std::size_t records);
  // Drops the messages that are through, and keeps the records of answers.
  void collect();

  const MpiLibrary& mpi_;
  const RankStatusBoard& board_;
  std::vector<std::uint64_t> boards_;
  std::vector<RankStatus> heard_;
  std::list<Message> messages_;  // under way; their buffers stay where they are
};

}  // namespace tandem::parallel
