// What the ranks of a run tell each other besides steps: what they are, whether they still agree, how it
// ended.
#include "files/digest.h"
#include "files/json_text.h"
#include "parallel/agreement.h"
#include "runs/environment.h"
#include "tasks/record.h"
#include "train/planned.h"
#include "train/rank_facts.h"
#include "train/trainer_session.h"

namespace tandem::train {

void Trainer::compare_ranks() {
  if (!ranks_.several() || !rank_facts_.empty()) return;
  config::Json course = course_of(given_.config);
  course.erase("threads");
  if (const std::string plan = plan_text_of(loaded_); !plan.empty()) course["plan"] = files::sha256(plan);
  std::vector<config::Json> facts;
  for (const std::string& text :
       ranks_.texts(files::json_text(facts_of_rank(runs::environment(), course, *task_->data()))))
    facts.push_back(config::Json::parse(text));
  if (const auto differs = difference(facts)) throw parallel::AgreedError(*differs, true);
  rank_facts_ = config::Json::array();
  for (config::Json& of_rank : facts) {
    of_rank.erase("same");
    rank_facts_.push_back(std::move(of_rank));
  }
  ranks_.join_devices();
  // Weights are drawn by each rank, or read from its files.
  if (const auto differs = ranks_.difference(learners_->common_state()))
    throw parallel::AgreedError(
        "ranks begin with one model: " + *differs + "; is init_from one file for all?", true);
}

// The first rank writes: what it could not write has failed everywhere.
void Trainer::share_outcome(Session& session) {
  if (!ranks_.several()) return;
  TrainResult& result = session.result;
  tasks::RecordWriter writer;
  writer.put(result.status).put_text(result.failure);
  const auto record = ranks_.from_first(std::move(writer).record());
  tasks::RecordReader reader(record);
  result.status = reader.take<TrainStatus>();
  result.failure = reader.take_text();
}

// Of parallel.check_every.
bool Trainer::check_due(Session& session) const {
  const std::int64_t every = config_.parallel.check_every;
  if (every == 0 || !ranks_.several()) return false;
  const std::int64_t before = std::exchange(session.checked_step, learners_->iterations());
  return passes_multiple(before, learners_->iterations(), every);
}

// Throws AgreedError unless all ranks hold the same state.
void Trainer::check_ranks(std::string_view when) {
  if (ranks_.several()) ranks_.require_same(learners_->common_state(), when);
}

// What the next micro-batches begin with, by phase, as one process would have it; on the first rank.
std::vector<tasks::Carry> Trainer::whole_carries() {
  std::vector<tasks::Carry> carries;
  for (const auto& own : carries_) carries.push_back(ranks_.whole(own));
  return carries;
}

}  // namespace tandem::train
