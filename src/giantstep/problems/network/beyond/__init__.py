"""Questions beyond the mean error: variance, shift, sensitivity, calibration, and two
networks that differ. The theory is beyond_the_error.
"""
