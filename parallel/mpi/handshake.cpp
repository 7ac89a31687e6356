#include "parallel/mpi/handshake.h"

#include <algorithm>

#include "parallel/deadline.h"

namespace tandem::parallel {

void Handshake::serve() {
  if (boards_.empty()) return;
  collect();
  int source = 0;
  while (probe(kQuestionTag, source)) {
    receive(source, kQuestionTag, 0);
    std::vector<RankStatus> records(boards_.size());
    for (const RankStatus& arrival : board_.read()) records[static_cast<std::size_t>(arrival.rank)] = arrival;
    send(source, kAnswerTag, std::move(records));
  }
}

std::vector<RankStatus> Handshake::call(double patience_s) {
  heard_ = board_.read();
  if (boards_.empty()) return std::move(heard_);  // board owners are unknown before the ranks have met
  const int size = static_cast<int>(boards_.size());
  for (int rank = 0; rank < size; ++rank)
    if (boards_[static_cast<std::size_t>(rank)] != board_.id()) send(rank, kQuestionTag, {});
  const auto all_are_known = [&] {
    std::vector<bool> known(boards_.size());
    for (const RankStatus& arrival : heard_) known[static_cast<std::size_t>(arrival.rank)] = true;
    return std::find(known.begin(), known.end(), false) == known.end();
  };
  Deadline patience(patience_s);
  while (!all_are_known() && !patience.over()) {
    int source = 0;
    while (probe(kAnswerTag, source)) receive(source, kAnswerTag, boards_.size());
    serve();
    patience.pause();
  }
  return std::move(heard_);
}

bool Handshake::probe(int tag, int& source) {
  int found = 0;
  MPI_Status status{};
  check(mpi_, mpi_.Iprobe(MPI_ANY_SOURCE, tag, mpi_.world, &found, &status), "MPI_Iprobe");
  source = status.MPI_SOURCE;
  return found != 0;
}

void Handshake::send(int rank, int tag, std::vector<RankStatus> records) {
  Message& message = messages_.emplace_back(Message{std::move(records), nullptr, false});
  const int bytes = static_cast<int>(message.records.size() * sizeof(RankStatus));
  check(mpi_, mpi_.Isend(message.records.data(), bytes, mpi_.byte, rank, tag, mpi_.world, &message.request),
        "MPI_Isend");
}

void Handshake::receive(int rank, int tag, std::size_t records) {
  Message& message =
      messages_.emplace_back(Message{std::vector<RankStatus>(records), nullptr, tag == kAnswerTag});
  const int bytes = static_cast<int>(records * sizeof(RankStatus));
  check(mpi_, mpi_.Irecv(message.records.data(), bytes, mpi_.byte, rank, tag, mpi_.world, &message.request),
        "MPI_Irecv");
}

void Handshake::collect() {
  for (auto message = messages_.begin(); message != messages_.end();) {
    int through = 0;
    check(mpi_, mpi_.Testall(1, &message->request, &through, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (!through) {
      ++message;
      continue;
    }
    if (message->is_answer_to_us)
      for (const RankStatus& record : message->records)
        if (record.process != 0) heard_.push_back(record);
    message = messages_.erase(message);
  }
}

}  // namespace tandem::parallel
