"""Which of several right answers is the best: policies, prices of devices, and placing by them."""
