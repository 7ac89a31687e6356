#include "runs/schedule_state.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tandem::runs {

namespace {

config::Json number_or_null(double value) {
  return std::isfinite(value) ? config::Json(value) : config::Json();
}

std::int64_t count_in(const config::Json& json, const char* key, const std::string& file) {
  const config::Json& value = json.at(key);
  require(value.is_number_integer() && value >= 0 && value <= (std::int64_t{1} << 53), "",
          "{}: its state is damaged: \"{}\" is {}, expected a count", file, key, value.dump());
  return value.get<std::int64_t>();
}

}  // namespace

config::Json to_json(const optim::PlateauState& state) {
  return {{"best", state.best ? config::Json(*state.best) : config::Json()},
          {"best_epoch", state.best_epoch},
          {"epoch", state.epoch},
          {"stalled", state.stalled},
          {"factor", state.factor}};
}

config::Json to_json(const optim::AveragingState& state) {
  config::Json figures = config::Json::array();
  for (const double figure : state.figures) figures.push_back(number_or_null(figure));
  return {{"figures", figures}, {"epoch", state.epoch}, {"begun", state.begun}};
}

optim::PlateauState plateau_in(const config::Json& json, const std::string& file) {
  optim::PlateauState state;
  if (!json.at("best").is_null()) state.best = json.at("best").get<double>();
  state.best_epoch = count_in(json, "best_epoch", file);
  state.epoch = count_in(json, "epoch", file);
  state.stalled = count_in(json, "stalled", file);
  state.factor = json.at("factor").get<double>();
  require(state.factor >= 0.0 && state.factor <= 1.0, "",
          "{}: its state is damaged: the learning rate's \"factor\" is {}, expected a number in [0, 1]", file,
          state.factor);
  return state;
}

optim::AveragingState averaging_in(const config::Json& json, const std::string& file) {
  optim::AveragingState state;
  for (const config::Json& figure : json.at("figures"))
    state.figures.push_back(figure.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                             : figure.get<double>());
  state.epoch = count_in(json, "epoch", file);
  state.begun = count_in(json, "begun", file);
  return state;
}

}  // namespace tandem::runs
