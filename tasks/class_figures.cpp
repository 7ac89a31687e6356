#include "tasks/class_figures.h"

#include <algorithm>

namespace tandem::tasks {

options::Entries<ClassFigure>& class_figures() {
  static options::Entries<ClassFigure> figures("metric", {});
  return figures;
}

MetricKinds with_class_figures(MetricKinds kinds) {
  for (const ClassFigure& figure : class_figures().entries()) {
    if (std::ranges::find(kinds, figure.name, &MetricKinds::value_type::first) != kinds.end())
      options::throw_twice("metric", figure.name);
    kinds.emplace_back(figure.name, figure.kind);
  }
  return kinds;
}

void add_class_figures(const metrics::ConfusionMatrix& confusion, Metrics& metrics) {
  for (const ClassFigure& figure : class_figures().entries())
    metrics.emplace_back(figure.name, figure.value(confusion));
}

}  // namespace tandem::tasks
