// Metric families, filled one value at a time while a scrape is answered.
#ifndef MEMORYD_SERVER_OPS_METRIC_FAMILY_H_
#define MEMORYD_SERVER_OPS_METRIC_FAMILY_H_

#include <prometheus/metric_family.h>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/histogram.h"

namespace memoryd {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

inline prometheus::ClientMetric::Label Label(const char* name, std::string_view value) {
  return {name, std::string(value)};
}

// The families of one scrape. One thread.
class MetricFamilies {
 public:
  // Those added so far, in that order. No Family of them may be used afterwards.
  std::vector<prometheus::MetricFamily> Take();

 private:
  friend class Family;

  // A deque, since a Family refers to its element while others are added behind it.
  std::deque<prometheus::MetricFamily> families_;
};

// Adds a family to a scrape, and then its metrics. Families may be filled in turn, in any order.
class Family {
 public:
  // `families` outlives this.
  Family(MetricFamilies& families, const char* name, prometheus::MetricType type, const char* help);

  // A counter or a gauge.
  void Add(double value, MetricLabels labels = {});
  // A histogram. `unit`: what a value of the snapshot is divided by.
  void Add(const HistogramSnapshot& snapshot, double unit, MetricLabels labels = {});

 private:
  prometheus::ClientMetric& Metric(MetricLabels labels);

  prometheus::MetricFamily& family_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_METRIC_FAMILY_H_
