#include "tests/collectives/nccl/emulated_group.h"

#include <algorithm>
#include <cstring>

#include "collectives/reduce.h"

namespace nqd::collectives::emulated {
namespace {

std::vector<std::byte> reduced(const std::vector<Operation>& given, std::size_t first,
                               std::size_t bytes) {
  const Operation& one = given.front();
  std::vector<std::byte> sum(given[0].in + first, given[0].in + first + bytes);
  for (std::size_t rank = 1; rank < given.size(); ++rank) {
    reduce(sum, sum, {given[rank].in + first, bytes}, one.type, one.op);
  }
  if (one.op == ReduceOp::kAvg) divide_by(sum, one.type, static_cast<int>(given.size()));
  return sum;
}

// What `rank` gets; nothing where its output is not touched.
std::vector<std::byte> result_of(const std::vector<Operation>& given, std::size_t rank) {
  const Operation& mine = given[rank];
  const auto root = static_cast<std::size_t>(mine.root);
  std::vector<std::byte> result;
  switch (mine.kind) {
    case Collective::kAllGather:
      for (const Operation& part : given)
        result.insert(result.end(), part.in, part.in + part.bytes());
      return result;
    case Collective::kReduceScatter:
      return reduced(given, rank * mine.bytes(), mine.bytes());
    case Collective::kReduce:
      return rank == root ? reduced(given, 0, mine.bytes()) : result;
    case Collective::kBroadcast:
      return {given[root].in, given[root].in + mine.bytes()};
    default:
      return reduced(given, 0, mine.bytes());
  }
}

}  // namespace

void Group::fail(int rank, NcclResult result) {
  const std::lock_guard lock(mutex);
  NcclResult& failure = failures[static_cast<std::size_t>(rank)];
  if (failure == NcclResult::kSuccess) failure = result;
  changed.notify_all();
}

void Group::meet(int rank, std::uint64_t sequence, const Operation& operation) {
  const auto place = static_cast<std::size_t>(rank);
  std::unique_lock lock(mutex);
  Encounter& all = encounters[sequence];
  all.given.resize(static_cast<std::size_t>(size));
  all.given[place] = operation;
  ++all.arrived;
  changed.notify_all();
  if (!await(lock, [&] { return all.arrived == size; })) return;
  const bool agree = std::all_of(all.given.begin(), all.given.end(),
                                 [&](const Operation& other) { return other.fits(operation); });
  if (!agree) {
    failures.assign(failures.size(), NcclResult::kInvalidUsage);
    return;
  }
  ++reading;
  lock.unlock();
  const std::vector<std::byte> result = result_of(all.given, place);
  lock.lock();
  --reading;
  // Results may lie where others still read their input.
  ++all.read;
  changed.notify_all();
  if (!await(lock, [&] { return all.read == size; })) return;
  if (!result.empty()) std::memcpy(operation.out, result.data(), result.size());
  if (++all.left == size) encounters.erase(sequence);
}

void Group::exchange(int rank, const std::vector<Operation>& messages) {
  std::unique_lock lock(mutex);
  std::vector<std::shared_ptr<Mail>> sent;
  for (const Operation& message : messages) {
    if (message.in == nullptr) continue;
    sent.push_back(std::make_shared<Mail>(Mail{message.in, message.bytes()}));
    mail[{rank, message.root}].push_back(sent.back());
  }
  changed.notify_all();
  for (const Operation& message : messages) {
    if (message.in != nullptr) continue;
    auto& box = mail[{message.root, rank}];
    if (!await(lock, [&] { return !box.empty(); })) return;
    const std::shared_ptr<Mail> next = box.front();
    box.pop_front();
    std::memcpy(message.out, next->data, std::min(next->bytes, message.bytes()));
    next->taken = true;
    changed.notify_all();
  }
  for (const auto& letter : sent) {
    if (!await(lock, [&] { return letter->taken; })) return;
  }
}

void Group::run(int rank, std::uint64_t& sequence, const std::vector<Operation>& operations) {
  std::vector<Operation> messages;
  for (const Operation& operation : operations) {
    if (operation.kind == Collective::kSendRecv) {
      messages.push_back(operation);
    } else {
      meet(rank, sequence++, operation);
    }
  }
  if (!messages.empty()) exchange(rank, messages);
}

void Split::resolve() {
  std::map<int, std::vector<std::pair<int, int>>> members;  // by color: key, rank
  for (std::size_t rank = 0; rank < choices.size(); ++rank) {
    const auto& [color, key] = *choices[rank];
    if (color >= 0) members[color].emplace_back(key, static_cast<int>(rank));
  }
  for (auto& [color, part] : members) {
    std::sort(part.begin(), part.end());
    parts[color] = std::make_shared<Group>(static_cast<int>(part.size()));
    parts[color]->joined = static_cast<int>(part.size());
    for (std::size_t place = 0; place < part.size(); ++place) {
      rank_in_part[part[place].second] = static_cast<int>(place);
    }
  }
}

}  // namespace nqd::collectives::emulated
