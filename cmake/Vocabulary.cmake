# The tokenizers' vocabularies, obtained at build time: target memoryd_vocabulary, folder
# MEMORYD_VOCABULARY_DIR, installed as share/memoryd beside the binary's bin.

find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

set(MEMORYD_VOCABULARY_DIR ${PROJECT_BINARY_DIR}/share/memoryd)

# A command that obtains the files named behind `comment` into MEMORYD_VOCABULARY_DIR; their paths to `files`.
function(memoryd_fetch files comment)
  list(TRANSFORM ARGN PREPEND ${MEMORYD_VOCABULARY_DIR}/ OUTPUT_VARIABLE fetched)
  add_custom_command(
    OUTPUT ${fetched}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/tokens/fetch_vocabulary.py
            --output ${MEMORYD_VOCABULARY_DIR} ${ARGN}
    # Files that were right already are left alone, so their times may be older than the script's.
    COMMAND ${CMAKE_COMMAND} -E touch ${fetched}
    DEPENDS ${PROJECT_SOURCE_DIR}/tools/tokens/fetch_vocabulary.py
    COMMENT ${comment}
    VERBATIM)
  set(${files} ${fetched} PARENT_SCOPE)
endfunction()

memoryd_fetch(MEMORYD_VOCABULARIES "Fetching the tokenizers' vocabularies"
  cl100k_base.tiktoken o200k_base.tiktoken)
add_custom_target(memoryd_vocabulary ALL DEPENDS ${MEMORYD_VOCABULARIES})

install(FILES ${MEMORYD_VOCABULARIES} ${PROJECT_SOURCE_DIR}/tools/tokens/tiktoken.license.txt
  DESTINATION ${CMAKE_INSTALL_DATADIR}/memoryd)

# The zones of the IANA Time Zone Database, for Abseil. tzdata.version is among the files, and is written
# last.
set(MEMORYD_ZONE_DIR ${MEMORYD_VOCABULARY_DIR}/zoneinfo)
memoryd_fetch(zones "Fetching the time zones" zoneinfo/tzdata.version)
add_custom_target(memoryd_zones ALL DEPENDS ${zones})
install(DIRECTORY ${MEMORYD_ZONE_DIR} DESTINATION ${CMAKE_INSTALL_DATADIR}/memoryd)

# The vectors of words, which the server reads from beside its own file. Whether they may be passed on
# is for whoever does so to decide (docs/DEPENDENCIES.md), so they are not installed unasked.
option(MEMORYD_INSTALL_WORD_VECTORS "Install the vectors of words with the server" OFF)
set(MEMORYD_WORD_VECTORS ${MEMORYD_VOCABULARY_DIR}/l2_supercat_256.safetensors)
memoryd_fetch(word_vectors "Fetching the vectors of words"
  l2_supercat_256.safetensors l2_supercat_256.tokenizer.json l2_supercat_256.license.txt)
add_custom_target(memoryd_word_vectors ALL DEPENDS ${word_vectors})
if(MEMORYD_INSTALL_WORD_VECTORS)
  install(FILES ${word_vectors} DESTINATION ${CMAKE_INSTALL_DATADIR}/memoryd)
endif()
