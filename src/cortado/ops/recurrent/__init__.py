"""LSTM, GRU and RNN layers and cells."""
