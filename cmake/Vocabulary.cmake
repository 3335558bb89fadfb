# The tokenizers' vocabularies, obtained at build time: target memoryd_vocabulary, folder
# MEMORYD_VOCABULARY_DIR, installed as share/memoryd beside the binary's bin.

find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

set(MEMORYD_VOCABULARY_DIR ${PROJECT_BINARY_DIR}/share/memoryd)
set(MEMORYD_VOCABULARIES
  ${MEMORYD_VOCABULARY_DIR}/cl100k_base.tiktoken
  ${MEMORYD_VOCABULARY_DIR}/o200k_base.tiktoken)

add_custom_command(
  OUTPUT ${MEMORYD_VOCABULARIES}
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/tokens/fetch_vocabulary.py
          --output ${MEMORYD_VOCABULARY_DIR}
  # Files that were right already are left alone, so their times may be older than the script's.
  COMMAND ${CMAKE_COMMAND} -E touch ${MEMORYD_VOCABULARIES}
  DEPENDS ${PROJECT_SOURCE_DIR}/tools/tokens/fetch_vocabulary.py
  COMMENT "Fetching the tokenizers' vocabularies"
  VERBATIM)
add_custom_target(memoryd_vocabulary ALL DEPENDS ${MEMORYD_VOCABULARIES})

install(FILES ${MEMORYD_VOCABULARIES} DESTINATION ${CMAKE_INSTALL_DATADIR}/memoryd)
