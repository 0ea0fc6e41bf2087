// For every processor, and in double precision the reference of the others.
#include "dtrain/model/conv_kernels.inl"
#include "dtrain/model/row_kernels.inl"
#include "dtrain/model/winograd_kernels.inl"

namespace dtrain {

const RowKernels<float> kPlainRows = Loops<float, 16, 4>::all("plain");
const RowKernels<double> kPlainRowsDouble = Loops<double, 16, 4>::all("plain");
const ConvKernels<float> kPlainConv = ConvLoops<float, 16, 4, 2>::all();
const ConvKernels<double> kPlainConvDouble = ConvLoops<double, 16, 4, 2>::all();
const WinogradKernels<float> kPlainWinograd = WinogradLoops<float, 16>::all(false);
const WinogradKernels<double> kPlainWinogradDouble = WinogradLoops<double, 16>::all(true);

}  // namespace dtrain
