# cmake -DINPUT=file -DOUTPUT=source -DNAME=function -DNAMESPACE=a::b -P EmbedFile.cmake
# Writes a C++ source whose function NAMESPACE::NAME() returns INPUT's bytes as a string_view.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "((....,){24})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include <string_view>

namespace ${NAMESPACE} {
namespace {
constexpr unsigned char kBytes[] = {
${bytes}
};
}  // namespace

std::string_view ${NAME}();
std::string_view ${NAME}() { return {reinterpret_cast<const char*>(kBytes), sizeof kBytes}; }

}  // namespace ${NAMESPACE}
")
