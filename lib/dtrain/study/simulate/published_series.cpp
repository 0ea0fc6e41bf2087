// The published measurements. Rates of one GPU, batches and efficiencies are the sources' own, but where a comment says
// otherwise; parameters are the networks'.
#include "dtrain/study/simulate/published.hpp"

namespace dtrain {
namespace {

using Published = std::vector<PublishedSeries::Point>;

/// What all networks of one source and machine have in common.
struct Setting {
  const char* source;
  const char* fabric;
  double bucket_mb;
  Cluster cluster;
};

constexpr double kFused = 64;    // MB: Horovod's fusion buffer
constexpr double kBuckets = 25;  // MB: PyTorch's DistributedDataParallel

// Links by their data sheets in GB/s; latencies as NCCL's src/graph/tuning.cc has them, in round figures.
Cluster of_nodes(int64_t ranks_per_node, double inside, double between, double latency_s = 20e-6) {
  return {"", ranks_per_node, {10e-6, 1e9 * inside}, {latency_s, 1e9 * between}};
}
Cluster one_node(int64_t ranks, double inside) { return of_nodes(ranks, inside, inside); }

const char* const kHorovod = "horovod/horovod: docs/benchmarks.rst, pull request 44";
const char* const kDocs = "tensorflow/docs: site/en/r1/guide/performance/benchmarks.md";
const char* const kExamples = "NVIDIA/DeepLearningExamples: MxNet/Classification/RN50v1.5/README.md";
const char* const kLambda = "lambdal/deeplearning-benchmark: pytorch-train-throughput-fp16.csv";

const Setting kPascal = {kHorovod, "25 Gbit/s RoCE", kFused, of_nodes(4, 12, 3.125)};
const Setting kVirtual = {"horovod/horovod: issue 779", "p3.16xlarge", kFused, of_nodes(8, 130, 3.125, 30e-6)};
const Setting kOnHost = {kDocs, "DGX-1, parameters on the CPU", 4, one_node(8, 12)};  // over PCIe
const Setting kOneRing = {kDocs, "DGX-1, NCCL 1", 25, one_node(8, 20)};               // one ring over NVLink
const Setting kA100 = {kExamples, "DGX A100", kFused, one_node(8, 300)};
const Setting kV100 = {kExamples, "DGX-1 V100", kFused, one_node(8, 150)};
const Setting kDgx2 = {kExamples, "DGX-2", kFused, one_node(16, 150)};
const Setting kLambdaH100 = {kLambda, "H100 SXM", kBuckets, one_node(8, 450)};
const Setting kLambdaA100 = {kLambda, "A100 SXM", kBuckets, one_node(8, 300)};
const Setting kLambdaV100 = {kLambda, "V100 SXM2", kBuckets, one_node(8, 150)};
const Setting kMicroscopy = {"oekosheri/tensorflow_unet_scaling: logs/log_hvd_*.csv", "V100, 2 a node", kFused,
                             of_nodes(2, 12, 12.5)};
const Setting kRealData = {"aws-samples/deep-learning-models: issue 2", "p3.16xlarge", kFused,
                           of_nodes(8, 130, 3.125, 30e-6)};
const Setting kPcie = {"horovod/horovod: issue 416", "V100 PCIe, 40 Gbit/s", kFused, of_nodes(8, 12, 5)};
const Setting kCheXNet = {"Dell EMC: CheXNet on 16 V100", "C4140", kFused, of_nodes(4, 12, 12.5)};

PublishedSeries series(const char* name, const Setting& setting, double images_per_s, double batch, double parameters,
                       const Published& points, const char* apart = "") {
  return {name,       setting.source,    setting.fabric,  images_per_s, batch,
          parameters, setting.bucket_mb, setting.cluster, points,       apart};
}

std::vector<PublishedSeries> all_series() {
  const char* const microscopy = "U-Net of 0.5 million parameters, V100";
  constexpr double kMicroscopyRate = 94;  // from the network's operations: the number of pictures is not published
  return {
      series("ResNet-101, Pascal", kPascal, 119.4, 64, 44.55, {{16, 0.914}, {512, 0.90}}),
      series("Inception V3, Pascal", kPascal, 134.4, 64, 23.83, {{16, 0.941}, {512, 0.90}}),
      series("VGG-16, Pascal", kPascal, 130.9, 64, 138.36, {{16, 0.853}, {512, 0.68}}),
      series("ResNet-50, p3.16xlarge", kVirtual, 872, 256, 25.56,  // batch assumed
             {{8, 0.957}, {16, 0.919}, {32, 0.855}, {64, 0.845}, {128, 0.804}}),
      series("ResNet-50, DGX-1 P100", kOnHost, 219, 64, 25.56, {{8, 0.990}}),
      series("ResNet-152, DGX-1 P100", kOnHost, 91.8, 64, 60.19, {{8, 0.975}}),
      series("Inception V3, DGX-1 P100", kOnHost, 142, 64, 23.83, {{8, 0.996}}),
      series("VGG-16, DGX-1 P100", kOneRing, 154, 64, 138.36, {{8, 0.877}}),
      series("AlexNet, DGX-1 P100", kOneRing, 2987, 512, 62.38, {{8, 0.746}}),
      series("ResNet-50 AMP, DGX A100", kA100, 2180, 256, 25.56, {{8, 0.970}}),
      series("ResNet-50 AMP, DGX-1 V100", kV100, 1376, 192, 25.56, {{8, 0.974}}),
      series("ResNet-50 AMP, DGX-2", kDgx2, 1492, 256, 25.56, {{16, 0.899}}),
      series("ResNet-50, 8 H100", kLambdaH100, 2791, 1280, 25.56, {{8, 0.989}}),
      series("ResNet-50, 8 A100", kLambdaA100, 1582, 1280, 25.56, {{8, 0.904}}),
      series("ResNet-50, 8 V100", kLambdaV100, 833, 256, 25.56, {{8, 0.926}}),
      series(microscopy, kMicroscopy, kMicroscopyRate, 16, 0.487, {{2, 0.983}, {4, 0.978}, {8, 0.972}, {14, 0.965}}),

      series("VGG-16, Pascal, TCP", kPascal, 130.9, 64, 138.36, {{16, 0.625}}, "TCP instead of RDMA"),
      series("ResNet-50, p3.16xlarge, real data", kRealData, 740, 256, 25.56, {{8, 0.84}, {16, 0.83}, {64, 0.79}},
             "reads and decodes pictures"),
      series("ResNet-101, 2 x 8 V100 on PCIe", kPcie, 200, 64, 44.55, {{4, 0.80}, {16, 0.73}},
             "the rate of one GPU is not published (200 images/s assumed)"),
      series("ResNet-50, part of 8 H100", kLambdaH100, 2791, 1280, 25.56, {{2, 0.991}, {4, 0.990}},
             "part of a node, which counts as a whole"),
      series(microscopy, kMicroscopy, kMicroscopyRate, 16, 0.487, {{12, 1.000}},
             "drops incomplete batches: fewer pictures than on one GPU"),
      series("DenseNet-121 CheXNet, 4 x 4 V100", kCheXNet, 267, 64, 6.97, {{16, 0.656}},
             "time to train: with start, input and evaluation"),
  };
}

}  // namespace

const std::vector<PublishedSeries>& published_series() {
  static const std::vector<PublishedSeries> all = all_series();
  return all;
}

}  // namespace dtrain
