#include "reduce/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "oracle.h"

namespace floe {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr uint32_t kDivisor = 3;
constexpr size_t kMaxSources = 9;
// Around every multiple of lanes that a loop has: 1 to 64 elements in a vector, 4 vectors in a step.
constexpr size_t kCounts[] = {0,   1,   2,   3,   4,   5,   7,   8,   9,   13,  15,  16,
                              17,  31,  32,  33,  63,  64,  65,  66,  95,  127, 128, 129,
                              191, 255, 256, 257, 258, 300, 319, 511, 513, 600};
constexpr size_t kMaxCount = 600;

// Values of every floating-point type; a product with one is exact in no narrower type than the accumulator.
constexpr double kFactors[kMaxSources] = {0.375, -1.75, 12, 0.0625, -0.0, 1, 448, -3.5, 0.001953125};

// Every source count's expected result, of kMaxCount elements: shorter reductions give a prefix of it.
struct Case {
  std::vector<std::vector<std::byte>> sources;   // [source]
  std::vector<std::vector<std::byte>> expected;  // [sources - 1]
};

Case make_case(const Reduction& reduction) {
  std::mt19937_64 random(static_cast<uint64_t>(reduction.type * 16 + reduction.op));
  std::vector<std::vector<Bits>> columns(kMaxCount);
  for (auto& column : columns)
    for (size_t s = 0; s < kMaxSources; ++s) column.push_back(random_element(reduction.type, random));

  Case c;
  for (size_t s = 0; s < kMaxSources; ++s) {
    std::vector<Bits> source, result;
    for (const auto& column : columns) {
      source.push_back(column[s]);
      result.push_back(
          reduce_element(std::span(column).first(s + 1), reduction.type, reduction.op, kDivisor, kFactors));
    }
    c.sources.push_back(to_bytes(reduction.type, source));
    c.expected.push_back(to_bytes(reduction.type, result));
  }
  return c;
}

// Memory whose last byte is followed by a page that may not be touched.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes) : bytes_(bytes), page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    usable_ = (bytes + page_ - 1) / page_ * page_;
    void* base = mmap(nullptr, usable_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(static_cast<std::byte*>(base) + usable_, page_, PROT_NONE) != 0)
      throw std::bad_alloc();
    base_ = static_cast<std::byte*>(base);
  }
  ~GuardedBuffer() { munmap(base_, usable_ + page_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  // The last `bytes`.
  std::byte* tail(size_t bytes) const { return base_ + usable_ - bytes; }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_, page_, usable_;
  std::byte* base_;
};

class EveryReduction : public ::testing::TestWithParam<Reduction> {
 protected:
  EveryReduction()
      : type_(GetParam().type), op_(GetParam().op), size_(type_size(type_)), case_(make_case(GetParam())) {}
  ~EveryReduction() override { EXPECT_TRUE(set_isa("").ok()); }

  std::vector<Bits> elements(const std::byte* bytes, size_t count) const {
    return to_elements(type_, {bytes, count * size_});
  }
  std::vector<Bits> expected(size_t sources, size_t count) const {
    return elements(case_.expected[sources - 1].data(), count);
  }

  std::span<const double> factors(size_t sources) const { return std::span(kFactors).first(sources); }

  int type_, op_;
  size_t size_;
  Case case_;
};

TEST_P(EveryReduction, MatchesTheOracleOnEveryIsaForAllCountsSourcesAndDestinations) {
  const size_t bytes = kMaxCount * size_;
  std::vector<std::unique_ptr<GuardedBuffer>> sources, destinations;
  for (size_t s = 0; s < kMaxSources; ++s) sources.push_back(std::make_unique<GuardedBuffer>(bytes));
  for (size_t d = 0; d < 3; ++d) destinations.push_back(std::make_unique<GuardedBuffer>(bytes));

  for (const std::string& isa : isa_names()) {
    ASSERT_TRUE(set_isa(isa).ok());
    for (const size_t count : kCounts) {
      for (size_t source_count = 1; source_count <= kMaxSources; ++source_count) {
        std::vector<const void*> srcs;
        for (size_t s = 0; s < source_count; ++s) {
          std::byte* start = sources[s]->tail(count * size_);
          std::copy_n(case_.sources[s].begin(), count * size_, start);
          srcs.push_back(start);
        }
        for (size_t destination_count = 1; destination_count <= 3; ++destination_count) {
          SCOPED_TRACE(fmt::format("{}: {} elements, {} sources, {} destinations", isa, count, source_count,
                                   destination_count));
          std::vector<void*> dsts;
          for (size_t d = 0; d < destination_count; ++d) {
            std::fill_n(destinations[d]->tail(bytes), bytes, std::byte{0xA5});
            dsts.push_back(destinations[d]->tail(count * size_));
          }
          reduce(dsts, srcs, count, type_, op_, kDivisor, factors(srcs.size()));
          for (size_t d = 0; d < destination_count; ++d) {
            const std::byte* whole = destinations[d]->tail(bytes);
            const std::byte* start = destinations[d]->tail(count * size_);
            ASSERT_EQ(elements(start, count), expected(source_count, count));
            ASSERT_TRUE(std::all_of(whole, start, [](std::byte b) { return b == std::byte{0xA5}; }));
          }
        }
      }
    }
  }
}

TEST_P(EveryReduction, NeedsNoAlignment) {
  for (const std::string& isa : isa_names()) {
    ASSERT_TRUE(set_isa(isa).ok());
    for (size_t shift = 1; shift < 8; ++shift) {
      const size_t count = 300 + shift;
      std::vector<std::vector<std::byte>> sources(3), destinations(2);
      std::vector<const void*> srcs;
      std::vector<void*> dsts;
      for (size_t s = 0; s < sources.size(); ++s) {
        sources[s].resize(kMaxCount * size_ + 16);
        std::copy_n(case_.sources[s].begin(), count * size_, sources[s].begin() + shift + s);
        srcs.push_back(sources[s].data() + shift + s);
      }
      for (auto& destination : destinations) {
        destination.assign(kMaxCount * size_ + 16, std::byte{0xA5});
        dsts.push_back(destination.data() + shift);
      }
      reduce(dsts, srcs, count, type_, op_, kDivisor, factors(srcs.size()));
      for (const auto& destination : destinations) {
        ASSERT_EQ(elements(destination.data() + shift, count), expected(3, count)) << isa << " +" << shift;
        EXPECT_THAT(std::span(destination).first(shift), Each(std::byte{0xA5}));
        EXPECT_THAT(std::span(destination).subspan(shift + count * size_), Each(std::byte{0xA5}));
      }
    }
  }
}

// Each destination in turn, of 1 to 3, is each source in turn; the rest are buffers of their own.
TEST_P(EveryReduction, ADestinationMayBeASource) {
  const size_t count = 517;
  for (const std::string& isa : isa_names()) {
    ASSERT_TRUE(set_isa(isa).ok());
    for (size_t source_count : {1, 2, 4}) {
      for (size_t destination_count = 1; destination_count <= 3; ++destination_count) {
        for (size_t s = 0; s < source_count; ++s) {
          for (size_t d = 0; d < destination_count; ++d) {
            auto sources = case_.sources;
            std::vector<std::vector<std::byte>> own(3, std::vector<std::byte>(count * size_));
            std::vector<const void*> srcs;
            for (size_t i = 0; i < source_count; ++i) srcs.push_back(sources[i].data());
            std::vector<void*> dsts;
            for (size_t i = 0; i < destination_count; ++i) dsts.push_back(own[i].data());
            dsts[d] = sources[s].data();
            reduce(dsts, srcs, count, type_, op_, kDivisor, factors(srcs.size()));
            for (const void* destination : dsts)
              ASSERT_EQ(elements(static_cast<const std::byte*>(destination), count),
                        expected(source_count, count))
                  << isa << ": destination " << d << " of " << destination_count << " is source " << s
                  << " of " << source_count;
          }
        }
      }
    }
  }
}

// Long enough for several pieces of the copies to a third and fourth destination, and for sources to be asked
// for ahead of their sum, where a CPU does so.
TEST_P(EveryReduction, AllDestinationsOfALongReductionGetIt) {
  constexpr size_t kRepeats = 70, kCount = kRepeats * kMaxCount - 3;  // the last step is no whole one
  std::vector<std::byte> sources[2], result;
  for (size_t i = 0; i < kRepeats; ++i) {
    for (size_t s = 0; s < 2; ++s)
      sources[s].insert(sources[s].end(), case_.sources[s].begin(), case_.sources[s].end());
    result.insert(result.end(), case_.expected[1].begin(), case_.expected[1].end());
  }
  enum Buffer { kA, kB, kFirst, kSecond, kThird, kBuffers };  // kA and kB: the sources
  const std::vector<Buffer> all_destinations[] = {
      {kFirst}, {kA}, {kFirst, kA}, {kA, kB}, {kFirst, kSecond}, {kFirst, kA, kSecond, kThird, kB}};
  for (const std::vector<Buffer>& destinations : all_destinations) {
    std::vector<std::byte> buffers[kBuffers] = {sources[0], sources[1]};
    std::vector<void*> to;
    for (const Buffer d : destinations) {
      buffers[d].resize(sources[0].size());
      to.push_back(buffers[d].data());
    }
    reduce(to, std::vector<const void*>{buffers[kA].data(), buffers[kB].data()}, kCount, type_, op_, kDivisor,
           factors(2));
    for (const Buffer d : destinations)
      EXPECT_TRUE(std::equal(result.begin(), result.begin() + kCount * size_, buffers[d].begin()))
          << reduction_name(GetParam()) << ", buffer " << d << " of " << destinations.size()
          << " destinations";
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryReduction, ::testing::ValuesIn(all_reductions()),
                         [](const auto& info) { return reduction_name(info.param); });

// ---- The contract in examples ---------------------------------------------------------------------

std::vector<double> reduce_floats(int type, int op, std::vector<double> values, uint32_t divisor = 1) {
  std::vector<std::vector<std::byte>> sources;
  for (const double value : values) {
    const std::vector<Bits> copies(5, encode(type, value));
    sources.push_back(to_bytes(type, copies));
  }
  std::vector<const void*> srcs;
  for (const auto& source : sources) srcs.push_back(source.data());
  std::vector<std::byte> result(5 * type_size(type));
  reduce(std::vector<void*>{result.data()}, srcs, 5, type, op, divisor);
  std::vector<double> decoded;
  for (const Bits bits : to_elements(type, result)) decoded.push_back(decode(type, bits));
  return decoded;
}

TEST(Reduce, Bf16RoundsOnceOverAllSources) {  // step by step, 256 + 1 would stay 256 seven times
  EXPECT_THAT(reduce_floats(FLOE_BFLOAT16, FLOE_SUM, {256, 1, 1, 1, 1, 1, 1, 1}), Each(264));
}

TEST(Reduce, AverageDividesBeforeItRounds) {  // 3 * 2^-24 / 3: the sum alone is no float16
  EXPECT_THAT(reduce_floats(FLOE_FLOAT16, FLOE_AVG, {1, 2, 6}, 3), Each(3));
  EXPECT_THAT(reduce_floats(FLOE_FLOAT16, FLOE_AVG, {65504, 65504}, 2), Each(65504));
  EXPECT_THAT(reduce_floats(FLOE_BFLOAT16, FLOE_AVG, {1}, 4), Each(0.25));
}

TEST(Reduce, SumsInTheOrderOfSources) {  // any other order loses a different part
  EXPECT_THAT(reduce_floats(FLOE_FLOAT32, FLOE_SUM, {0x1p24, 1, 1, -0x1p24}), Each(0));
  EXPECT_THAT(reduce_floats(FLOE_FLOAT32, FLOE_SUM, {1, 1, 0x1p24, -0x1p24}), Each(2));
}

TEST(Reduce, MinimumAndMaximumPropagateNanAndOrderZeros) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int type :
       {FLOE_FLOAT32, FLOE_FLOAT64, FLOE_FLOAT16, FLOE_BFLOAT16, FLOE_FLOAT8_E4M3, FLOE_FLOAT8_E5M2}) {
    for (const int op : {FLOE_MIN, FLOE_MAX}) {
      EXPECT_THAT(reduce_floats(type, op, {nan, 1, 2}), Each(::testing::IsNan()));
      EXPECT_THAT(reduce_floats(type, op, {1, nan, -2}), Each(::testing::IsNan()));
      for (const auto& zeros : {std::vector<double>{0.0, -0.0}, std::vector<double>{-0.0, 0.0}})
        for (const double zero : reduce_floats(type, op, zeros))
          EXPECT_EQ(std::signbit(zero), op == FLOE_MIN);
    }
  }
}

TEST(Reduce, PremulSumRoundsNeitherProductsNorTheirSum) {  // 448 * 448 and 29.75 are no float8
  const std::vector<std::byte> ones = {std::byte{0x38}}, largest = {std::byte{0x7E}};
  std::byte result{};
  const auto premul = [&](const std::vector<std::byte>& a, double x, const std::vector<std::byte>& b,
                          double y) {
    reduce(std::vector<void*>{&result}, std::vector<const void*>{a.data(), b.data()}, 1, FLOE_FLOAT8_E4M3,
           kPremulSum, 1, std::vector<double>{x, y});
    return decode(FLOE_FLOAT8_E4M3, static_cast<Bits>(result));
  };
  EXPECT_EQ(premul(largest, 448, largest, -448), 0);
  EXPECT_EQ(premul(largest, 448, ones, 1), 448);
  EXPECT_EQ(premul(largest, 0.0625, ones, 1.75), 30);  // 28 + 1.75, nearest of 28, 30, 32
}

TEST(Reduce, Float8OverflowsAsPyTorchConverts) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(reduce_floats(FLOE_FLOAT8_E4M3, FLOE_SUM, {448, 448}), Each(448));
  EXPECT_THAT(reduce_floats(FLOE_FLOAT8_E4M3, FLOE_SUM, {-448, -448, -448}), Each(-448));
  EXPECT_THAT(reduce_floats(FLOE_FLOAT8_E4M3, FLOE_SUM, {448, 448, -448}), Each(448));
  EXPECT_THAT(reduce_floats(FLOE_FLOAT8_E5M2, FLOE_SUM, {57344, 4096}), Each(infinity));  // a tie, to even
  EXPECT_THAT(reduce_floats(FLOE_FLOAT8_E5M2, FLOE_SUM, {57344, 3584}), Each(57344));
  EXPECT_THAT(reduce_floats(FLOE_FLOAT8_E5M2, FLOE_SUM, {-57344, -57344}), Each(-infinity));
}

TEST(Reduce, AnyByteButZeroIsTrueAndResultsAreZeroOrOne) {
  const std::vector<uint8_t> a = {0, 0, 2, 128, 255}, b = {0, 7, 0, 1, 255};
  const std::vector<const void*> srcs = {a.data(), b.data()};
  const auto combine = [&](int op) {
    std::vector<uint8_t> result(5);
    reduce(std::vector<void*>{result.data()}, srcs, 5, FLOE_BOOL, op, 1);
    return result;
  };
  for (const int op : {FLOE_SUM, FLOE_MAX, FLOE_BOR}) EXPECT_THAT(combine(op), ElementsAre(0, 1, 1, 1, 1));
  for (const int op : {FLOE_PRODUCT, FLOE_MIN, FLOE_BAND})
    EXPECT_THAT(combine(op), ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(combine(FLOE_BXOR), ElementsAre(0, 1, 1, 0, 0));
}

TEST(Reduce, ProductsOfComplexNumbers) {  // (1 + 2i) (3 - i) (i) = -5 + 5i
  const float a[] = {1, 2}, b[] = {3, -1}, c[] = {0, 1};
  float result[2] = {};
  reduce(std::vector<void*>{result}, std::vector<const void*>{a, b, c}, 1, FLOE_COMPLEX64, FLOE_PRODUCT, 1);
  EXPECT_THAT(result, ElementsAre(-5, 5));
}

TEST(Reduce, IntegersWrapAround) {
  const std::vector<int8_t> a = {127, -128, 100}, b = {1, -1, 100};
  std::vector<int8_t> sum(3), product(3);
  const std::vector<const void*> srcs = {a.data(), b.data()};
  reduce(std::vector<void*>{sum.data()}, srcs, 3, FLOE_INT8, FLOE_SUM, 1);
  reduce(std::vector<void*>{product.data()}, srcs, 3, FLOE_INT8, FLOE_PRODUCT, 1);
  EXPECT_THAT(sum, ElementsAre(-128, 127, -56));
  EXPECT_THAT(product, ElementsAre(127, -128, 16));
}

TEST(Reduce, NothingOfNothing) {
  reduce(std::vector<void*>{nullptr}, std::vector<const void*>{nullptr, nullptr}, 0, FLOE_FLOAT32, FLOE_SUM,
         1);
}

}  // namespace
}  // namespace floe
