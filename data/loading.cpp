#include "data/loading.h"

namespace tandem::datasets {

const options::Schema& LoadingOptions::schema() {
  static const options::Schema schema =
      options::Describe<LoadingOptions>()
          .key("batch_size", &LoadingOptions::batch_size, "samples in a batch", {.min = 1, .max = 1048576})
          .key("eval_batch_size", &LoadingOptions::eval_batch_size,
               "batch size of evaluations; auto: batch_size", {.min = 1, .max = 1048576, .keyword = "auto"})
          .key("workers", &LoadingOptions::workers,
               "threads that prefetch on their own cores; 0: load between steps", {.min = 0, .max = 256})
          .key("prefetch", &LoadingOptions::prefetch, "batches that workers keep ready",
               {.min = 0, .max = 1024})
          .key("shuffle", &LoadingOptions::shuffle, "shuffle the samples in each epoch")
          .key("drop_last", &LoadingOptions::drop_last, "leave out an incomplete last training batch")
          .key("overfit_batches", &LoadingOptions::overfit_batches,
               "train and evaluate on the first N training batches only, in order and without augmentation; "
               "0: off",
               {.min = 0, .max = 1073741824});
  return schema;
}

}  // namespace tandem::datasets
