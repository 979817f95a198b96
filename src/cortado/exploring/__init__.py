"""What a network would take, before there is data to calibrate it with."""
