#include "samples/register.h"

#include "data/masked_sets.h"
#include "data/text/labelled_registry.h"
#include "data/text/registry.h"
#include "samples/cmu_dictionary.h"
#include "samples/cutouts.h"
#include "samples/item_scenes.h"
#include "samples/jargon.h"
#include "samples/office_help.h"
#include "samples/package_descriptions.h"
#include "samples/package_questions.h"
#include "samples/package_sections.h"
#include "samples/scenes.h"
#include "samples/stamp_scenes.h"

namespace tandem::samples {

namespace {

bool add_all() {
  datasets::masked_sets().add(datasets::scenes_entry);
  datasets::masked_sets().add(datasets::cutouts_entry);
  datasets::box_sets().add(datasets::item_scenes_entry);
  datasets::box_sets().add(datasets::stamp_scenes_entry);
  datasets::corpora().add(datasets::package_descriptions_entry);
  datasets::corpora().add(datasets::jargon_entry);
  datasets::labelled_corpora().add(datasets::package_sections_entry);
  datasets::question_sets().add(datasets::package_questions_entry);
  datasets::pair_corpora().add(datasets::cmu_dictionary_entry);
  datasets::pair_corpora().add(datasets::office_help_entry);
  return true;
}

}  // namespace

void register_all() { [[maybe_unused]] static const bool added = add_all(); }

}  // namespace tandem::samples
