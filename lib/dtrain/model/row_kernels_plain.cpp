// For every processor, and in double precision the reference of the others.
#include "dtrain/model/row_kernels.inl"

namespace dtrain {

const RowKernels<float> kPlainRows = Loops<float, 16, 4>::all("plain");
const RowKernels<double> kPlainRowsDouble = Loops<double, 16, 4>::all("plain");

}  // namespace dtrain
