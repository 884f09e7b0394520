#include "launcher/run.h"

int main(int argc, char** argv) { return shardlm::run_program(argc, argv); }
