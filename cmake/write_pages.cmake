# What the program says of itself, as files below OUTPUT: cmake -D PHALANX=PROGRAM -D OUTPUT=DIR -P write_pages.cmake
# The same program writes the same bytes.
file(REMOVE_RECURSE ${OUTPUT})
file(MAKE_DIRECTORY ${OUTPUT}/man1)
execute_process(COMMAND ${PHALANX} help --man-pages ${OUTPUT}/man1 COMMAND_ERROR_IS_FATAL ANY)
file(GLOB pages ${OUTPUT}/man1/*.1)
configure_file(${CMAKE_CURRENT_LIST_DIR}/../CHANGELOG.md ${OUTPUT}/changelog COPYONLY)
execute_process(COMMAND gzip -9nf ${pages} ${OUTPUT}/changelog COMMAND_ERROR_IS_FATAL ANY)
foreach(shell bash zsh fish)
  execute_process(COMMAND ${PHALANX} completion ${shell} OUTPUT_FILE ${OUTPUT}/phalanx.${shell} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(TOUCH ${OUTPUT}/made)
