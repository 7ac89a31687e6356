// Entries of the task registry, one for each family of tasks.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

// Classification: one class for each sample. Metrics: accuracy, top5 (with more than five classes), loss.
TaskRegistry::Entry classification_family();

// Detection: boxes and classes of objects in images. Metrics over the whole set: AP, AP50, AP75, AP_small,
// AP_medium, AP_large, AR1, AR10, AR100, AR_small, AR_medium, AR_large (COCO's, if the set has such objects),
// mAP (VOC's), loss.
TaskRegistry::Entry detection_family();

// GAN: a generator of images and a discriminator, trained against each other. Metrics: fd_lenet
// (fd_classifier), class_entropy. See docs/gan.md.
TaskRegistry::Entry gan_family();

// Language models: predict the next word of a text.
TaskRegistry::Entry language_family();

// Masked language models: predict masked words of a text, and whether its second half follows the first.
// Metrics: loss, perplexity and accuracy of the masked words; next_accuracy.
TaskRegistry::Entry masked_language_family();

// Question answering: the part of a text that answers a question, if there is one. Metrics: f1, exact_match,
// loss.
TaskRegistry::Entry question_answering_family();

// Segmentation: one class for each pixel of an image. Metrics over all pixels of the set: miou (mean
// intersection over union of the classes), dice (mean Dice coefficient), pixel_accuracy, loss.
TaskRegistry::Entry segmentation_family();

// Classification of texts: one class for each. Metrics: accuracy, top5 (with more than five classes), loss.
TaskRegistry::Entry text_classification_family();

// Translation: maps a text to another one, e.g. between languages, or to its pronunciation. Metrics: loss and
// perplexity of the references' pieces, and of beam-search translations BLEU, errors per piece and the share
// of texts with an error.
TaskRegistry::Entry translation_family();

}  // namespace tandem::tasks
