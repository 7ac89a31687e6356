// Which casts may go, and where others may stand: functions from graph to graph that keep every value, and
// every gradient unless the line says otherwise.
//
//   rule                                    condition
//   1  16→32→16 of one type goes            nobody else reads the middle, and gradients do not meet elsewhere
//   2  32→16→32 stays                       it is a rounding that the plan asked for
//   3  16a→32→16b in one                    nobody else reads the middle; never by way of a narrower type
//   4  past reshape, slice, concat, pad     to where fewer values are cast, or where the op moves 16 bits
//   5  past broadcast, max, relu, abs       only where no gradient flows
//   6  into the store of its producer       only products read it, and the producer keeps no output
//   7  into the load of its reader          widening, and the reader is no product
//   8  one for each tensor and type         the readers' gradients are added in f32 and rounded once more
//   9  a parameter's: its working copy      –
//   10 of what the step is given: once      it has no gradient
//
// Where no gradient flows, conditions that are about gradients hold.
#pragma once

#include "amp/plan/typed_graph.h"

namespace tandem::amp::plan {

// Whether from → middle → to has the values of from → to: the middle holds all of `from`.
bool may_fold(DType from, DType middle, DType to);
// Whether a constant is the same in a type.
bool is_representable(double value, DType type);

TypedGraph fold_casts(TypedGraph graph);             // 1, 2, 3
TypedGraph move_exact_casts(TypedGraph graph);       // 4, and negation of 5
TypedGraph move_forward_casts(TypedGraph graph);     // 5
TypedGraph store_casts(TypedGraph graph);            // 6
TypedGraph load_casts(TypedGraph graph);             // 7
TypedGraph share_casts(TypedGraph graph);            // 8
TypedGraph hoist_parameter_casts(TypedGraph graph);  // 9
TypedGraph keep_constant_casts(TypedGraph graph);    // 10

// All of them: 8, 1 to 3, 4, 5, 6, 7 as long as these change something, then 9 and 10. Without `share`, casts
// stay one for each reader, as autocast makes them, except of parameters.
TypedGraph without_needless_casts(TypedGraph graph, bool share = true);

}  // namespace tandem::amp::plan
