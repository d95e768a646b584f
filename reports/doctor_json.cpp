#include <algorithm>

#include "reports/envelope_json.h"
#include "reports/evidence.h"

namespace nqd::reports {

std::string doctor_json(const Envelope& envelope, const std::vector<MachineCheck>& checks) {
  JsonWriter json;
  json.begin_object();
  write_envelope(json, envelope);
  json.key("checks").begin_array();
  for (const MachineCheck& check : checks) {
    json.begin_object();
    json.field("name", check.name);
    json.field("status", check.status);
    json.field("detail", check.detail);
    json.field("advice", known(check.advice));
    json.end();
  }
  json.end();
  json.field("ok", std::none_of(checks.begin(), checks.end(), [](const MachineCheck& check) {
               return check.status == "missing";
             }));
  json.end();
  return json.take();
}

}  // namespace nqd::reports
