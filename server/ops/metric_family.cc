#include "server/ops/metric_family.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/histogram.h"

namespace memoryd {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

std::vector<MetricFamily> MetricFamilies::Take() {
  std::vector<MetricFamily> taken(std::make_move_iterator(families_.begin()),
                                  std::make_move_iterator(families_.end()));
  families_.clear();
  return taken;
}

Family::Family(MetricFamilies& families, const char* name, MetricType type, const char* help)
    : family_(families.families_.emplace_back()) {
  family_.name = name;
  family_.type = type;
  family_.help = help;
}

void Family::Add(double value, MetricLabels labels) {
  ClientMetric& metric = Metric(std::move(labels));
  (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
}

void Family::Add(const HistogramSnapshot& snapshot, double unit, MetricLabels labels) {
  ClientMetric::Histogram& histogram = Metric(std::move(labels)).histogram;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < snapshot.counts.size(); ++i) {
    count += snapshot.counts[i];
    const double bound = i < snapshot.bounds.size() ? static_cast<double>(snapshot.bounds[i]) / unit
                                                    : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({count, bound});
  }
  histogram.sample_count = count;
  histogram.sample_sum = static_cast<double>(snapshot.sum) / unit;
}

ClientMetric& Family::Metric(MetricLabels labels) {
  ClientMetric& metric = family_.metric.emplace_back();
  metric.label = std::move(labels);
  return metric;
}

}  // namespace memoryd
