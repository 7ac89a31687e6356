// Translation: maps a text to another one, e.g. between languages, or to its pronunciation. Metrics: loss and
// perplexity of the references' pieces, and of beam-search translations BLEU, errors per piece and the share
// of texts with an error.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

TaskRegistry::Entry translation_family();

}  // namespace tandem::tasks
