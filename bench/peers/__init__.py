"""Measures shardlm beside llama.cpp, CTranslate2 and PyTorch on the same random weights."""
