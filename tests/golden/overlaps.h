// Made by overlaps.py; see there.
#pragma once

#include <limits>
#include <vector>

namespace golden {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct OverlapCase {
  const char* name;
  int images, height, width, classes;
  std::vector<int> truth, predicted;  // what is drawn from
  int ignored;                        // one pixel in so many
  std::vector<double> iou, dice;
  double mean_iou, mean_dice, accuracy;
};

// scikit-learn 1.9.1, NumPy 2.4.6.
// clang-format off
inline const std::vector<OverlapCase> kOverlapCases = {
    {"eleven classes", 5, 12, 9, 11, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 7,
     {0.07317073170731707, 0.06097560975609756, 0.11392405063291139, 0.07407407407407407, 0.06557377049180328, 0.012987012987012988, 0.03296703296703297, 0.06097560975609756, 0.07142857142857142, 0.0410958904109589, 0.031914893617021274},
     {0.13636363636363635, 0.11494252873563218, 0.20454545454545456, 0.13793103448275862, 0.12307692307692308, 0.02564102564102564, 0.06382978723404255, 0.11494252873563218, 0.13333333333333333, 0.07894736842105263, 0.061855670103092786},
     0.058098840711718044, 0.10867357187932582, 0.10845986984815618},
    {"a class that is nowhere", 3, 8, 8, 5, {0, 1, 2, 4}, {0, 1, 4}, 0,
     {0.18478260869565216, 0.25, 0.0, kNone, 0.19540229885057472},
     {0.3119266055045872, 0.4, 0.0, kNone, 0.3269230769230769},
     0.15754622688655673, 0.259712420606916, 0.3020833333333333},
    {"a class that is only predicted", 4, 6, 7, 4, {0, 1}, {0, 1, 3}, 3,
     {0.2972972972972973, 0.2647058823529412, kNone, 0.0},
     {0.4583333333333333, 0.4186046511627907, kNone, 0.0},
     0.18733439321674616, 0.292312661498708, 0.3669724770642202},
    {"one class of three", 2, 5, 5, 3, {1}, {1}, 2,
     {kNone, 1.0, kNone},
     {kNone, 1.0, kNone},
     1.0, 1.0, 1.0},
    {"two classes", 6, 10, 10, 2, {0, 0, 0, 1}, {0, 1}, 5,
     {0.4468599033816425, 0.1879432624113475},
     {0.6176961602671118, 0.3164179104477612},
     0.317401582896495, 0.4670570353574365, 0.5096359743040685},
};

// Of "two classes", by probabilities of four times the hash.
inline const std::vector<double> kIouByThreshold = {0.23671497584541062, 0.23684210526315788, 0.21978021978021978, 0.21714285714285714, 0.21238938053097345, 0.21492537313432836, 0.21406727828746178, 0.2082018927444795, 0.1935483870967742, 0.18543046357615894, 0.18493150684931506, 0.1906474820143885, 0.18181818181818182, 0.18326693227091634, 0.17872340425531916, 0.18222222222222223, 0.1722488038277512, 0.15384615384615385, 0.09615384615384616};

inline constexpr int kLossShape[] = {2, 5, 6, 3};
struct MaskLoss {
  const char* name;
  double value;
};
inline constexpr MaskLoss kMaskLosses[] = {
    {"cross_entropy_dice", 2.8048473528416813},
    {"cross_entropy_dice weighted", 1.6289209657606112},
    {"cross_entropy_dice without dice", 2.134727678517793},
    {"bce_dice", 2.1667975219572986},
    {"bce_dice squared", 2.665649885941768},
    {"bce_dice of dice alone", 0.7149137751903409},
};
// clang-format on

}  // namespace golden
