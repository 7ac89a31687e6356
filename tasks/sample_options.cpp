#include "tasks/sample_options.h"

namespace tandem::tasks {

const options::Schema& SampleOptions::schema() {
  static const options::Schema schema =
      options::Describe<SampleOptions>()
          .include(&SampleOptions::set)
          .key("augment", &SampleOptions::augment,
               "transforms of each training image, in order; evaluation keeps those that are not random")
          .short_key("name");
  return schema;
}

}  // namespace tandem::tasks
